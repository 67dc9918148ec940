"""Many writers on SQLite as Django configures it: no WAL, deferred transactions, five seconds of patience."""

from tests.store.programs import run_program

SETTINGS = """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "%(path)s/db.sqlite3"}}
"""

PROGRAM = """
import asyncio
import subprocess
import sys
import threading

from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connection
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.recorder import Recorder
from django_pydantic_agent.testing.step_store import effect, event, prompt, snapshot
from tests.store.factories import new_run, step_store

RUNS, TOOLS, ADA = 8, 4, Owner("user:1")

# Another process reads the admin's lists and, as a deployment script might, keeps a write transaction open.
OTHER = '''
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(2)
connection.execute("COMMIT")
for _ in range(50):
    connection.execute("SELECT COUNT(*) FROM django_pydantic_agent_store_run").fetchall()
'''

call_command("migrate", verbosity=0)
store, recorder = DatabaseRunStore(), Recorder()
live = [store.create(new_run(ADA, f"live {number}"), on_commit=lambda *_: None) for number in range(RUNS)]
release_connections()


async def record(steps, run_id):
    await steps.register_run(RunRecord(run_id=run_id))
    for tool in range(TOOLS):
        await steps.record_tool_effect(effect(run_id, str(tool)))
        await steps.append_event(event(run_id, step=tool, key=str(tool)))
        await steps.save_snapshot(snapshot(run_id, *[prompt(str(step)) for step in range(tool + 1)], step=tool))
        await steps.record_tool_effect(effect(run_id, str(tool), "completed"))


async def record_live(run):
    journal = recorder.open(store, run, LiveLog(store, run.key, last_seq=run.last_seq, status=run.status))
    await record(step_store(ADA).recording(journal), run.run_id)
    await journal.settled()


async def record_all_live():
    await asyncio.gather(*map(record_live, live))


errors = []


def guarded(call, *args):
    try:
        call(*args)
    except Exception as error:
        errors.append(error)
    finally:
        release_connections()


with subprocess.Popen([sys.executable, "-c", OTHER, connection.settings_dict["NAME"]], stdout=subprocess.PIPE) as other:
    other.stdout.readline()
    threads = [
        threading.Thread(target=guarded, args=[async_to_sync(record), step_store(ADA), f"apart {number}"])
        for number in range(RUNS)
    ]
    threads.append(threading.Thread(target=guarded, args=[asyncio.run, record_all_live()]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
recorder.stop()
assert errors == [], errors
assert other.returncode == 0

for run_id in [f"{kind} {number}" for number in range(RUNS) for kind in ("live", "apart")]:
    steps = step_store(ADA)
    assert [row.step_index for row in async_to_sync(steps.list_events)(run_id=run_id)] == list(range(TOOLS)), run_id
    snapshots = async_to_sync(steps.list_snapshots)(run_id=run_id)
    assert [len(row.messages) for row in snapshots] == list(range(1, TOOLS + 1)), run_id
    assert async_to_sync(steps.list_unresolved_tool_effects)(run_id=run_id) == []
print("done")
"""


def test_C23_brief_locks_lose_nothing(tmp_path):
    assert run_program(tmp_path, settings=SETTINGS % {"path": tmp_path}, program=PROGRAM) == "done\n"
