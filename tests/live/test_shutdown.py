"""A process that is told to stop lets its viewers go and begins nothing; one that starts looks after others at once."""

import signal

import pytest

from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, script
from tests.live.visitors import Visitor, check_complete, fresh, run_input, text_of, types_of
from tests.servers import STOP_SECONDS, Server, each
from tests.sse import check_ids, is_detached

# What a signal does to a server is the same on every database.
pytestmark = pytest.mark.sqlite

# Daphne cuts its streams at once; the workers of hypercorn do so too, and never hear of the signal.
WAITS_FOR_STREAMS = {"uvicorn": (), "hypercorn": ("--workers", "0"), "granian": (), "gunicorn-gthread": ()}
# Longer than a server is waited for.
GRACE_SECONDS = 3 * STOP_SECONDS


@pytest.mark.parametrize("kind", each(WAITS_FOR_STREAMS))
def test_SIGTERM_lets_go_of_the_viewers_of_runs_that_execute_elsewhere(
    start: Start, uvicorn: Server, visitor: Visitor, gates: Gatekeeper, kind: str
):
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    engine = {"SHUTDOWN_GRACE_SECONDS": GRACE_SECONDS}
    with (
        visitor.send(uvicorn, body) as first,
        start(kind, engine=engine, options=WAITS_FOR_STREAMS[kind]) as server,
    ):
        seen = first.until("TOOL_CALL_END")
        gates.wait_reached(held)
        with (
            visitor.follow(server, body["runId"]) as stays,
            visitor.follow(server, body["runId"], headers={"X-AGUI-Resume": "1"}) as resumes,
        ):
            frames = stays.until("TOOL_CALL_END")
            assert types_of(resumes.until("TOOL_CALL_END")) == types_of(frames)
            server.process.terminate()
            frames += stays.frames()
            assert list(resumes.frames()) == []
        server.process.wait(STOP_SECONDS)
        assert is_detached(frames[-1].event)
        check_ids(frames, run_id=body["runId"])
        gates.open(held)
        seen += first.until("RUN_FINISHED")
    assert text_of(seen) == "done"
    visitor.ended(body["runId"])
    check_complete(visitor, body["runId"], seen)


@pytest.mark.parametrize("kind", each(["uvicorn", "hypercorn", "granian"]))
def test_with_lifespan_a_process_ends_what_a_dead_one_left_before_anybody_asks_it(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)]))
    engine = {"BEAT_SECONDS": 0.25, "LEASE_SECONDS": 2.0}
    with start("uvicorn", engine=engine) as dies, visitor.send(dies, body) as response:
        response.until("TOOL_CALL_END")
        gates.wait_reached(held)
        dies.kill()
    with start(kind, engine=engine, application="tests.live.asgi:application") as server:
        assert visitor.ended(body["runId"]).status == "orphaned"
        assert server.terminate() in (0, -signal.SIGTERM)
        assert "Traceback" not in server.log()


@pytest.mark.parametrize("kind", each(["uvicorn", "hypercorn", "granian"]))
def test_with_lifespan_SIGTERM_gives_a_run_its_grace_though_nobody_watches_it(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    engine = {"SHUTDOWN_GRACE_SECONDS": GRACE_SECONDS}
    with start(kind, engine=engine, application="tests.live.asgi:application") as server:
        with visitor.send(server, body) as response:
            response.until("TOOL_CALL_END")
            gates.wait_reached(held)
        server.process.terminate()
        gates.open(held)
        server.process.wait(STOP_SECONDS)
        assert visitor.ended(body["runId"]).status == "finished"
        assert "Traceback" not in server.log()
