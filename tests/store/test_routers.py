"""The app's rows may live in a database of their own."""

from tests.store.programs import run_program

SETTINGS = """
DATABASES = {
    "default": %(default)s,
    "users": {"ENGINE": "django.db.backends.sqlite3", "NAME": "%(path)s/users.sqlite3"},
    "agents": {"ENGINE": "django.db.backends.sqlite3", "NAME": "%(path)s/agents.sqlite3"},
    "replica": {"ENGINE": "django.db.backends.sqlite3", "NAME": "%(path)s/replica.sqlite3"},
}
DATABASE_ROUTERS = ["program_router.Router"]
"""

ROUTER = """
APP = "django_pydantic_agent_store"


class Router:
    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "agents" if model._meta.app_label == APP else "users"

    def allow_relation(self, first, second, **hints):
        return True

    def allow_migrate(self, db, app_label, **hints):
        return (app_label == APP) == (db in ("agents", "replica"))
"""

PROGRAM = """
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.management import call_command
from pydantic_ai_harness.step_persistence import RunRecord

from django_ag_ui.api.access import _still_there
from django_pydantic_agent.contrib.store.claiming import claim_runs
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.rebuild import _user
from django_pydantic_agent.stores.base import RunQuery
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.step_store import effect, event, prompt, snapshot
from tests.store.factories import ending, new_run, step_store

for alias in ("users", "agents", "replica"):
    call_command("migrate", database=alias, verbosity=0)
user = get_user_model().objects.create(username="ada")
ada = Owner.of_user(user)
assert _user(ada) == _still_there(user) == user
store, told = DatabaseRunStore(), []
run = store.create(new_run(ada, "run"), on_commit=lambda run, frame: told.append(run))
assert told == [run]
write = RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, frames=[b"a"], ending=ending())
assert store.commit([write]) == [None]
assert store.read_frames(run.key, after=1, max_bytes=100) == [b"a", b"end"]
store.tidy(run.key)
assert store.read_frames(run.key, after=1, max_bytes=100) == [b"a", b"end"]
assert store.lineage_message_ids(run.key) == {"message of run"}
assert store.input(run.key) == b"{}"
assert [row.key for row in store.page(owner=ada, scope="", query=RunQuery()).runs] == [run.key]

steps = step_store(ada)
async_to_sync(steps.register_run)(RunRecord(run_id="run"))
async_to_sync(steps.append_event)(event("run"))
async_to_sync(steps.save_snapshot)(snapshot("run", prompt("hi")))
async_to_sync(steps.save_snapshot)(snapshot("run", prompt("hi"), prompt("ho")))
async_to_sync(steps.record_tool_effect)(effect("run", "call"))
assert len(async_to_sync(steps.list_events)(run_id="run")) == 1
assert len(async_to_sync(steps.list_snapshots)(run_id="run")) == 2
assert async_to_sync(steps.latest_snapshot)(run_id="run").messages == [prompt("hi"), prompt("ho")]
assert len(async_to_sync(steps.list_unresolved_tool_effects)(run_id="run")) == 1
assert store.get(owner=ada, scope="", run_id="run").unresolved_effects == 1
assert claim_runs(ada, Owner("user:2")) == 1
assert Run.objects.using("agents").count() == 1
assert Run.objects.using("replica").count() == 0
print("done")
"""


def run_routed(tmp_path, *, default: str) -> str:
    (tmp_path / "program_router.py").write_text(ROUTER)
    return run_program(tmp_path, settings=SETTINGS % {"path": tmp_path, "default": default}, program=PROGRAM)


def test_C34_everything_happens_on_the_alias_that_is_written_to(tmp_path):
    default = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "default.sqlite3")}
    assert run_routed(tmp_path, default=repr(default)) == "done\n"


def test_C34_the_default_database_may_be_empty(tmp_path):
    assert run_routed(tmp_path, default="{}") == "done\n"
