import email
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGES = ("django_ag_ui", "django_pydantic_agent")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = directory.iterdir()
    return zipfile.Path(path)


@pytest.fixture
def metadata(wheel: zipfile.Path) -> Message:
    (directory,) = (path for path in wheel.iterdir() if path.name.endswith(".dist-info"))
    return email.message_from_string((directory / "METADATA").read_text())


def pins() -> list[Requirement]:
    return [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines()]


def pinned(name: str, python: str) -> str:
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    (pin,) = (pin for pin in pins() if pin.name == name and (not pin.marker or pin.marker.evaluate(environment)))
    (specifier,) = pin.specifier
    return specifier.version


def test_wheel_holds_both_packages_whole_and_nothing_else(wheel: zipfile.Path):
    shipped = {name for name in wheel.root.namelist() if ".dist-info/" not in name and name[-1] != "/"}
    sources = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == sources


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(wheel: zipfile.Path, package: str):
    assert (wheel / package / "py.typed").exists()


def test_extras_install_what_the_contract_says(metadata: Message):
    extras = defaultdict(set)
    for requirement in map(Requirement, metadata.get_all("Requires-Dist", [])):
        chosen = [name for name in metadata.get_all("Provides-Extra", []) if f'"{name}"' in str(requirement.marker)]
        named = requirement.name + (f"[{','.join(requirement.extras)}]" if requirement.extras else "")
        extras[chosen[0] if chosen else None].add(named)
    assert extras == {
        None: {"ag-ui-protocol", "django", "djangorestframework", "jsonpatch", "pydantic-ai-slim"},
        "harness": {"pydantic-ai-harness"},
        "code-mode": {"pydantic-ai-harness[code-mode]"},
        "channels": {"channels", "channels-redis", "daphne"},
        "celery": {"celery"},
        "spectacular": {"drf-spectacular"},
        "postgres": {"psycopg"},
    }


def test_constraints_pin_versions_and_name_no_url():
    for pin in pins():
        assert pin.url is None
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin


def test_every_requirement_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    required = {Requirement(line).name.lower() for lines in lists for line in lines if isinstance(line, str)}
    assert required <= {pin.name for pin in pins()}


def test_constraints_take_the_newest_django_that_each_python_supports():
    assert pinned("django", "3.11").startswith("5.2.")
    assert pinned("django", "3.12") == pinned("django", "3.14")
    assert pinned("django", "3.14").startswith("6.1.")


@pytest.mark.parametrize("path", ["package-lock.json", "tests/node/package-lock.json"])
def test_lock_files_name_no_registry(path: str):
    assert '"resolved"' not in (ROOT / path).read_text()


def test_import_contracts_hold():
    linter = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    result = subprocess.run([*linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
