# Everything runs in a virtual environment that is made on first use and again when the requirements change.

VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000

python := $(VENV)/bin/python
ready := $(VENV)/.ready
npm_ready := node_modules/.package-lock.json
packages := django_ag_ui django_pydantic_agent

.PHONY: help demo test check check-js format format-js constraints screenshots

help:
	@echo "make demo         serve the example project on http://$(HOST):$(PORT)/"
	@echo "make test         run the tests on SQLite"
	@echo "make check        run every linter, the type checker and the import contracts"
	@echo "make format       rewrite the code in the project's style"
	@echo "make screenshots  take the pictures of the pages in docs/images"
	@echo "make constraints  pin the newest requirements in constraints.txt"

$(ready): pyproject.toml constraints.txt tools/bootstrap.sh
	VENV=$(VENV) sh tools/bootstrap.sh
	@touch $@

$(npm_ready): package.json package-lock.json
	npm ci --silent
	@touch $@

demo: $(ready)
	$(python) manage.py migrate --verbosity 0
	$(python) manage.py demo_user
	@echo "Serving http://$(HOST):$(PORT)/ (Control-C stops it)"
	$(python) manage.py runserver $(HOST):$(PORT)

test: $(ready)
	$(python) -m pytest

check: $(ready) check-js
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(packages)
	$(VENV)/bin/lint-imports
	$(python) -W error manage.py makemigrations --check --dry-run
	$(python) -W error manage.py check --fail-level WARNING
	$(VENV)/bin/djlint --check --lint $(packages) example_project

# Where there is no Node, only CI fails.
ifneq ($(or $(CI),$(shell command -v npm)),)
check-js: $(npm_ready)
	npx --no-install biome ci --colors=off .
else
check-js:
	@echo "npm is not installed: the JavaScript is not checked"
endif

format: $(ready) format-js
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	-$(VENV)/bin/djlint --quiet --reformat $(packages) example_project

format-js: $(npm_ready)
	npx --no-install biome check --write --colors=off .

constraints: $(ready)
	$(python) -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --universal --upgrade --python-version 3.11 --all-extras --group dev --group mariadb \
		--no-annotate --no-header --output-file constraints.txt pyproject.toml

screenshots: $(ready)
	$(python) -m tests.browser.screenshots
