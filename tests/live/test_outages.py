"""A database that is away, locked or full in the middle of a run."""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from typing import Protocol

import pytest
from django.db import connection

from example_project.notebook.models import Note
from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, gate, script, spell
from tests.live.visitors import Visitor, check_complete, events_of, fresh, lines_of, stored_log, text_of
from tests.proxies import Proxy
from tests.servers import LiveDatabase
from tests.sse import Frame, check_ids, check_sequence, is_detached

AWAY_SECONDS = float(os.environ.get("AWAY_SECONDS", "3"))
"""How long the database is away; the proof is 20 seconds."""
PENDING_BYTES = 64 * 1024
KEEP_ALIVE_SECONDS = 0.5
SETTINGS = "tests.live.outage_settings"


class Outage(Protocol):
    """What takes the database away from servers that have `env`, and not from the test."""

    env: dict[str, str]

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Locked:
    """Another process that holds SQLite's only lock for writing."""

    def __init__(self, name: str) -> None:
        self.env: dict[str, str] = {}
        self._other = sqlite3.connect(name, timeout=20, isolation_level=None, check_same_thread=False)

    def begin(self) -> None:
        self._other.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        if self._other.in_transaction:
            self._other.execute("ROLLBACK")


class Unreachable:
    """A server that is restarted: every connection is cut, and for a while there are no new ones."""

    def __init__(self) -> None:
        database = connection.settings_dict
        host, port = database["HOST"], int(database["PORT"] or {"postgresql": 5432, "mysql": 3306}[connection.vendor])
        self._proxy = Proxy(host, port)
        self.env = {
            "postgresql": {"PGHOST": "127.0.0.1", "PGPORT": str(self._proxy.port)},
            "mysql": {"MYSQL_HOST": "127.0.0.1", "MYSQL_TCP_PORT": str(self._proxy.port)},
        }[connection.vendor]

    def begin(self) -> None:
        self._proxy.shut()

    def end(self) -> None:
        self._proxy.open()


@pytest.fixture
def outage(database: LiveDatabase, on_live_database: None) -> Iterator[Outage]:
    outage = Locked(database.name) if connection.vendor == "sqlite" else Unreachable()
    yield outage
    outage.end()


def test_a_run_outlasts_an_outage_and_begins_no_tool_meanwhile(
    start: Start, visitor: Visitor, gates: Gatekeeper, outage: Outage
):
    run_id, held, note, behind = fresh("run"), fresh("held"), fresh("note"), fresh("behind")
    turns = script([spell("before "), gate(held), spell("during "), call("write", text=note)], [gate(behind), RECITE])
    engine = {"STORE_PATIENCE_SECONDS": 10 * AWAY_SECONDS, "PENDING_BYTES": PENDING_BYTES}
    options = {"engine": engine, "ag_ui": {"KEEP_ALIVE_SECONDS": KEEP_ALIVE_SECONDS}, "env": outage.env}
    with start("uvicorn", settings_module=SETTINGS, **options) as server, visitor.post(server, run_id, turns) as stream:
        frames = stream.until("TEXT_MESSAGE_CONTENT")
        gates.wait_reached(held)
        outage.begin()
        gates.open(held)
        # The outage itself, not a wait for something.
        time.sleep(AWAY_SECONDS)
        assert gates.count(note) == 0
        outage.end()
        gates.open(behind)
        frames += stream.frames()
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
    assert text_of(frames).startswith("before during ")
    assert gates.count(note) == Note.objects.filter(text=note).count() == 1
    comments = [frame for frame in frames if frame.event is None]
    assert len(comments) >= AWAY_SECONDS / KEEP_ALIVE_SECONDS / 2
    (effect,) = visitor.row(run_id).tool_effects.all()
    assert effect.status == "completed"


def test_during_an_outage_a_run_waits_when_so_much_is_not_committed(
    start: Start, visitor: Visitor, gates: Gatekeeper, outage: Outage
):
    run_id, held, behind = fresh("run"), fresh("held"), fresh("behind")
    chunks = ["x" * 1000] * 300
    turns = script([spell("before "), gate(held), *chunks, gate(behind), "end"])
    engine = {"STORE_PATIENCE_SECONDS": 10 * AWAY_SECONDS, "PENDING_BYTES": PENDING_BYTES}
    with (
        start("uvicorn", settings_module=SETTINGS, engine=engine, env=outage.env) as server,
        visitor.post(server, run_id, turns) as stream,
    ):
        frames = stream.until("TEXT_MESSAGE_CONTENT")
        gates.wait_reached(held)
        outage.begin()
        gates.open(held)
        # The outage itself, not a wait for something.
        time.sleep(AWAY_SECONDS)
        assert gates.count(behind) == 0
        outage.end()
        gates.open(behind)
        frames += stream.frames()
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
    assert text_of(frames) == "before " + "".join(chunks) + "end"


def check_failed(visitor: Visitor, run_id: str, frames: list[Frame]) -> None:
    """Check that the viewer was sent away and that the log, which holds all it saw, ends as failed by the store."""
    row = visitor.ended(run_id)
    assert row.error is not None
    assert (row.status, row.error["code"]) == ("failed", "storage")
    assert is_detached(events_of(frames)[-1])
    check_ids(frames, run_id=run_id)
    log = stored_log(row.pk)
    seen = lines_of(frames[:-1])
    assert log[: len(seen)] == seen
    assert len(log) == row.last_seq
    check_sequence([json.loads(line) for line in log])


def test_after_the_patience_viewers_are_sent_away_and_the_run_fails_once_it_can(
    start: Start, visitor: Visitor, gates: Gatekeeper, outage: Outage
):
    run_id, held, note = fresh("run"), fresh("held"), fresh("note")
    turns = script([spell("before "), gate(held), spell("during "), call("write", text=note)], ["never said"])
    engine = {"STORE_PATIENCE_SECONDS": 1.0}
    with start("uvicorn", settings_module=SETTINGS, engine=engine, env=outage.env) as server:
        with visitor.post(server, run_id, turns) as stream:
            frames = stream.until("TEXT_MESSAGE_CONTENT")
            gates.wait_reached(held)
            outage.begin()
            gates.open(held)
            frames += stream.frames()
        assert gates.count(note) == 0
        outage.end()
        check_failed(visitor, run_id, frames)
    assert gates.count(note) == 0


@pytest.mark.sqlite
def test_on_a_full_disk_a_run_fails_once_there_is_room_to_say_so(
    start: Start, visitor: Visitor, gates: Gatekeeper, database: LiveDatabase
):
    run_id, held, note = fresh("run"), fresh("held"), fresh("note")
    turns = script([spell("before "), gate(held), *["x" * 10_000] * 50, call("write", text=note)], ["never said"])
    with contextlib.closing(sqlite3.connect(database.name, timeout=20)) as other:
        limit = pages_of(other) + 1_000
        env = {"LIVE_MAX_PAGES": str(limit)}
        with start("uvicorn", settings_module=SETTINGS, engine={"STORE_PATIENCE_SECONDS": 1.0}, env=env) as server:
            with visitor.post(server, run_id, turns) as stream:
                frames = stream.until("TEXT_MESSAGE_CONTENT")
                gates.wait_reached(held)
                other.execute("CREATE TABLE filler (data)")
                while pages_of(other) < limit:
                    with other:
                        other.execute("INSERT INTO filler VALUES (zeroblob(100000))")
                gates.open(held)
                frames += stream.frames()
            with other:
                other.execute("DROP TABLE filler")
            check_failed(visitor, run_id, frames)
    assert gates.count(note) == 0


def pages_of(database: sqlite3.Connection) -> int:
    pages: int = database.execute("PRAGMA page_count").fetchone()[0]
    return pages
