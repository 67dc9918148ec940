"""Processes that end while runs go on: told to by SIGTERM, or killed."""

import contextlib
import json
from collections.abc import Callable
from functools import partial

import pytest

from django_pydantic_agent.contrib.store.models import ToolEffect
from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, script, spell
from tests.live.visitors import Visitor, at_once, eventually, fresh, lines_of, stored_log, text_of, types_of
from tests.servers import Server, each
from tests.sse import Frame, Response, StreamCut, check_ids, check_sequence, is_detached

# What a signal does to a server is the same on every database.
pytestmark = pytest.mark.sqlite

WAITS_FOR_STREAMS = {"uvicorn": True, "daphne": False, "gunicorn-gthread": True}
EXIT_SECONDS = 20


def rest_of(response: Response) -> list[Frame]:
    """Return the frames until the stream ends, in order or cut."""
    frames: list[Frame] = []
    with contextlib.suppress(StreamCut):
        for frame in response.frames():
            frames.append(frame)
    return frames


def check_log(visitor: Visitor, run_id: str, seen: list[Frame], *, ended: bool) -> None:
    """Check that the log has no hole and begins with what the viewer saw; and where it has ended, that it is whole."""
    row = visitor.row(run_id)
    log = stored_log(row.pk)
    lines = lines_of(seen[:-1] if is_detached(seen[-1].event) else seen)
    assert log[: len(lines)] == lines
    assert len(log) == row.last_seq
    check_ids(seen, run_id=run_id)
    check_sequence([json.loads(line) for line in log], partial=not ended)


@pytest.mark.parametrize("kind", each(WAITS_FOR_STREAMS))
def test_SIGTERM_leaves_a_run_the_time_to_finish(start: Start, visitor: Visitor, gates: Gatekeeper, kind: str):
    run_id, held, note = fresh("run"), fresh("held"), fresh("note")
    with start(kind, engine={"SHUTDOWN_GRACE_SECONDS": 15}) as server:
        turns = script([call("hold", gate=held)], [call("write", text=note)], ["done"])
        with visitor.post(server, run_id, turns) as response:
            seen = response.until("TOOL_CALL_END")
            gates.wait_reached(held)
            server.process.terminate()
            gates.open(held)
            seen += rest_of(response)
        server.process.wait(EXIT_SECONDS)
        assert server.members() == []
    assert visitor.row(run_id).status == "finished"
    assert (types_of(seen)[-1] == "RUN_FINISHED") >= WAITS_FOR_STREAMS[kind]
    check_log(visitor, run_id, seen, ended=True)
    assert gates.count(note) == 1


@pytest.mark.parametrize("tool", ["hold", "hold_thread"])
@pytest.mark.parametrize("kind", each(WAITS_FOR_STREAMS))
def test_SIGTERM_lets_go_of_what_has_not_finished_in_its_grace(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str, tool: str
):
    run_id, held = fresh("run"), fresh("held")
    with start(kind, engine={"SHUTDOWN_GRACE_SECONDS": 0.5}) as server:
        with visitor.post(server, run_id, script([call(tool, gate=held)], ["done"])) as response:
            seen = response.until("TOOL_CALL_END")
            gates.wait_reached(held)
            server.process.terminate()
            seen += rest_of(response)
        server.process.wait(EXIT_SECONDS)
        assert server.members() == []
    assert is_detached(seen[-1].event) >= WAITS_FOR_STREAMS[kind]
    # The next process that looks need not wait until the lease has run out.
    with start("uvicorn", engine={"LEASE_SECONDS": 600, "BEAT_SECONDS": 1}, application="tests.live.asgi:application"):
        row = visitor.ended(run_id)
    assert row.status == "orphaned"
    assert tool in row.error["message"]
    check_log(visitor, run_id, seen, ended=True)
    gates.open(held)


def test_a_tool_begins_only_after_its_record_is_committed(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, held = fresh("run"), [fresh("held") for _ in range(5)]
    turns = [[call("hold", gate=name)] for name in held]
    with visitor.post(uvicorn, run_id, script(*turns, ["done"])) as response:
        row = visitor.row(run_id)
        for number, name in enumerate(held):
            gates.wait_reached(name)
            statuses = list(row.tool_effects.order_by("pk").values_list("status", flat=True))
            assert len(statuses) == number + 1
            assert statuses[-1] == "started"
            gates.open(name)
        response.until("RUN_FINISHED")


@pytest.mark.parametrize("kind", ["uvicorn", "gunicorn-gthread"])
def test_after_a_kill_the_log_is_whole_up_to_the_last_event_that_anyone_saw(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    held = fresh("held")
    run_ids = [fresh("run") for _ in range(4)]
    seen: dict[str, list[Frame]] = {run_id: [] for run_id in run_ids}
    with start(kind) as server:

        def watch(run_id: str) -> None:
            with visitor.post(server, run_id, script([spell("word " * 20_000)])) as response:
                for frame in response.frames():
                    seen[run_id].append(frame)

        def kill() -> None:
            eventually(lambda: all(len(text_of(list(frames))) > 100 for frames in seen.values()))
            server.kill()

        with visitor.post(server, fresh("run"), script([call("hold", gate=held)])) as response:
            waiting = response.until("TOOL_CALL_END")
            gates.wait_reached(held)
            answers = at_once([*(partial(cut_off, watch, run_id) for run_id in run_ids), kill])
        assert answers == [True] * len(run_ids) + [None]
    for run_id, frames in seen.items():
        assert visitor.row(run_id).status == "running"
        check_log(visitor, run_id, frames, ended=False)
    run_id = str(waiting[0].run_id)
    check_log(visitor, run_id, waiting, ended=False)
    (effect,) = ToolEffect.objects.filter(run=visitor.row(run_id))
    assert effect.status == "started"


def cut_off(watch: Callable[[str], None], run_id: str) -> bool:
    """Return whether the connection of a viewer was cut."""
    try:
        watch(run_id)
    except StreamCut:
        return True
    return False
