"""Database connections: none for an open stream, fresh ones for tools, whatever happened to the old."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.live.conftest import Start
from tests.live.connections import ENGINE_CONNECTIONS, held_connections, terminate_connections
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, gate, script
from tests.live.visitors import Visitor, at_once, check_complete, eventually, fresh, run_input, text_of
from tests.servers import ROOT, LiveDatabase, Server

STREAMS = 100
ATTACHED = 20
KIBIBYTE = 1024


def test_no_connection_is_held_while_100_streams_are_open(
    start: Start, visitor: Visitor, gates: Gatekeeper, record_testsuite_property: Callable[[str, object], None]
):
    held = fresh("held")
    bodies = [run_input(fresh("run"), script(["begun ", gate(held), "ended"])) for _ in range(STREAMS)]

    def memory(server: Server) -> int:
        taken: int = visitor.get(server, "probe/")[1]["memory"]
        return taken

    host = "tests.live.host_settings"
    with start("uvicorn", settings_module=host) as first, start("daphne") as second, contextlib.ExitStack() as stack:
        # What is loaded once is no cost of a stream.
        for server in (first, second):
            visitor.run(server, fresh("run"), script([call("quick", word="a")], ["done"]))
        before = memory(first)
        streams = [stack.enter_context(visitor.send(first, body)) for body in bodies]
        seen = [stream.until("TEXT_MESSAGE_CONTENT") for stream in streams]
        eventually(lambda: held_connections() <= ENGINE_CONNECTIONS)
        record_testsuite_property("kibibytes_per_stream", (memory(first) - before) // KIBIBYTE // STREAMS)
        attached = [stack.enter_context(visitor.follow(second, str(body["runId"]))) for body in bodies[:ATTACHED]]
        for stream in attached:
            stream.until("TEXT_MESSAGE_CONTENT")
        eventually(lambda: held_connections() <= 2 * ENGINE_CONNECTIONS)
        gates.open(held)
        for frames, stream, body in zip(seen, streams, bodies, strict=True):
            frames += stream.frames()
            assert text_of(frames) == "begun ended"
            check_complete(visitor, str(body["runId"]), frames)
        for stream in attached:
            stream.until("RUN_FINISHED")


def test_no_connection_is_held_by_the_threads_of_a_wsgi_server(start: Start, visitor: Visitor, gates: Gatekeeper):
    held = fresh("held")
    with start("gunicorn-gthread") as server, contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(visitor.post(server, fresh("run"), script(["begun ", gate(held), "ended"])))
            for _ in range(12)
        ]
        for stream in streams:
            stream.until("TEXT_MESSAGE_CONTENT")
        eventually(lambda: held_connections() <= ENGINE_CONNECTIONS)
        gates.open(held)
        for stream in streams:
            stream.until("RUN_FINISHED")


@pytest.mark.postgres
@pytest.mark.mariadb
def test_runs_and_their_sync_orm_tools_survive_the_loss_of_every_connection(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper
):
    run_id, held, again = fresh("run"), fresh("held"), fresh("held")
    notes = [fresh("note") for _ in range(4)]
    turns = script(
        [call("write", text=notes[0])],
        ["a ", gate(held), "b ", call("write", text=notes[1]), call("write_in_thread", text=notes[2])],
        [call("hold_thread", gate=again)],
        [call("write_roundabout", text=notes[3])],
        [RECITE],
    )
    with visitor.post(uvicorn, run_id, turns) as response:
        frames = response.until("TEXT_MESSAGE_CONTENT")
        for name in (held, again):
            gates.wait_reached(name)
            assert terminate_connections() > 0
            gates.open(name)
            if name == held:
                frames += response.until("TOOL_CALL_RESULT")
        frames += response.frames()
    for note in notes:
        assert f"wrote {note}" in text_of(frames)
        assert gates.count(note) == 1
    assert visitor.user is not None
    assert sorted(visitor.user.notes.values_list("text", flat=True)) == sorted(notes)
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
    terminate_connections()
    frames = visitor.run(uvicorn, fresh("run"), script([call("write", text=fresh("note"))], ["done"]))
    assert text_of(frames) == "done"
    assert visitor.user.notes.count() == 5


def parallel_tools() -> tuple[str, list[str]]:
    """Return a script that asks for three tools at once, each of which writes a note in its own way."""
    notes = [fresh("note") for _ in range(3)]
    tools = ["write", "write_in_thread", "write_roundabout"]
    return script([call(tool, text=note) for tool, note in zip(tools, notes, strict=True)], [RECITE]), notes


def check_parallel_tools(visitor: Visitor, gates: Gatekeeper, said: str, notes: list[str]) -> None:
    assert visitor.user is not None
    for note in notes:
        assert f"wrote {note}" in said
        assert gates.count(note) == visitor.user.notes.filter(text=note).count() == 1


@pytest.mark.parametrize("kind", ["uvicorn", "gunicorn-gthread"])
def test_C04_sync_and_async_tools_in_ten_runs_at_once_do_not_wait_for_each_other(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    with start(kind, settings_module="tests.live.host_settings") as server:

        def run() -> None:
            turns, notes = parallel_tools()
            run_id = fresh("run")
            frames = visitor.run(server, run_id, turns)
            check_complete(visitor, run_id, frames)
            said.append((text_of(frames), notes))

        said: list[tuple[str, list[str]]] = []
        run()
        at_once([run] * 10)
        for text, notes in said:
            check_parallel_tools(visitor, gates, text, notes)
        assert len(said) == 11
        eventually(lambda: held_connections() <= ENGINE_CONNECTIONS)


def test_C04_a_run_of_a_management_command_uses_the_same_tools(
    database: LiveDatabase, visitor: Visitor, gates: Gatekeeper
):
    turns, notes = parallel_tools()
    run_id = fresh("run")
    assert visitor.user is not None
    done = subprocess.run(
        [sys.executable, "-m", "django", "run_agent", visitor.user.username, json.dumps(run_input(run_id, turns))],
        cwd=ROOT,
        env=os.environ | database.env | gates.env | {"DJANGO_SETTINGS_MODULE": "tests.live.settings"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stdout.splitlines() == visitor.stored_log(run_id)
    said = "".join(event["delta"] for event in frames if event["type"] == "TEXT_MESSAGE_CONTENT")
    check_parallel_tools(visitor, gates, said, notes)
    assert visitor.ended(run_id).status == "finished"
