"""SQLite as Django sets it up by default, with parallel runs and another writer."""

import contextlib
import sqlite3
import time
from functools import partial

import pytest
from django.db import connection

from django_pydantic_agent.runs.engine import stop_engine
from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, gate, script
from tests.live.visitors import Visitor, at_once, check_complete, fresh, text_of
from tests.servers import connected, create_live_database
from tests.sse import Frame

RUNS = 8
LOCK_SECONDS = 2.0
TOOLS = ["write", "write_in_thread", "write_roundabout", "write"]


@pytest.mark.sqlite
def test_C23_parallel_runs_survive_the_locks_of_another_writer(start: Start, gates: Gatekeeper):
    # Its threads would open connections of their own, which keep the journal as it is.
    stop_engine()
    held = fresh("held")
    notes = [[fresh("note") for _ in TOOLS] for _ in range(RUNS)]
    run_ids = [fresh("run") for _ in range(RUNS)]
    with create_live_database() as database, connected(database.name):
        visitor = Visitor.new()
        connection.close()
        with contextlib.closing(
            sqlite3.connect(database.name, timeout=20, isolation_level=None, check_same_thread=False)
        ) as other:
            assert other.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
            with start("uvicorn", settings_module="tests.live.sqlite_settings", env=database.env) as server:

                def run(index: int) -> list[Frame]:
                    writing = [call(tool, text=note) for tool, note in zip(TOOLS, notes[index], strict=True)]
                    return visitor.run(server, run_ids[index], script([gate(held), *writing], [RECITE]))

                def disturb() -> list[Frame]:
                    gates.wait_reached(held, RUNS)
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("UPDATE auth_user SET first_name = 'locked'")
                    gates.open(held)
                    # The lock itself, not a wait for something.
                    time.sleep(LOCK_SECONDS)
                    other.execute("COMMIT")
                    for _ in range(100):
                        visitor.get(server, "agent/runs/")
                    return []

                answers = at_once([*(partial(run, index) for index in range(RUNS)), disturb])
                assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        for run_id, frames, written in zip(run_ids, answers, notes, strict=False):
            assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
            assert all(f"wrote {note}" in text_of(frames) for note in written)
            row = visitor.row(run_id)
            assert [effect.status for effect in row.tool_effects.all()] == ["completed"] * len(TOOLS)
            assert row.is_continuable
        assert visitor.user is not None
        assert sorted(visitor.user.notes.values_list("text", flat=True)) == sorted(
            note for written in notes for note in written
        )
