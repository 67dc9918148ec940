"""A viewer that does not take what it is sent, or takes it for too long, is sent away and catches up later."""

import pytest

from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, drone, script
from tests.live.test_leaving import tasks
from tests.live.visitors import Visitor, check_complete, eventually, fresh, lines_of, run_input, types_of
from tests.servers import each
from tests.sse import Frame, Response, StreamCut, check_ids, is_detached

# How a server gets rid of a viewer is the same on every database.
pytestmark = pytest.mark.sqlite

MEGABYTE = 1_000_000
# More than what the sockets of both sides hold.
MEGABYTES = 24


def received(response: Response) -> tuple[list[Frame], bool]:
    """Return the frames to the end of a stream, and whether it was cut."""
    frames: list[Frame] = []
    try:
        for frame in response.frames():
            frames.append(frame)
    except StreamCut:
        return frames, True
    return frames, False


# Not daphne, which takes all that it is given and keeps it.
@pytest.mark.parametrize("kind", each(["uvicorn", "hypercorn", "granian"]))
def test_a_viewer_that_reads_nothing_is_cut_and_finds_the_rest_when_it_comes_back(
    start: Start, visitor: Visitor, kind: str
):
    body = run_input(fresh("run"), script([drone(MEGABYTE)] * MEGABYTES))
    with start(kind, ag_ui={"SLOW_VIEWER_SECONDS": 0.2}) as server:
        before = tasks(server)["django"]
        with visitor.send(server, body) as response:
            seen = response.until("RUN_STARTED")
            assert visitor.ended(body["runId"]).status == "finished"
            eventually(lambda: tasks(server)["django"] <= before)
            rest, was_cut = received(response)
        seen += rest
        assert was_cut or is_detached(seen[-1].event)
        check_ids(seen, run_id=body["runId"])
        log = visitor.stored_log(body["runId"])
        frames = lines_of(seen)[: None if was_cut else -1]
        assert len(frames) < len(log)
        assert log[: len(frames)] == frames
        cursor = {"Last-Event-ID": str(seen[len(frames) - 1].id)}
        rest = visitor.log(server, body["runId"], headers=cursor)
    assert frames + lines_of(rest) == log


def test_a_wsgi_viewer_that_reads_too_late_is_sent_away(start: Start, visitor: Visitor):
    body = run_input(fresh("run"), script([drone(MEGABYTE)] * MEGABYTES))
    with start("gunicorn-gthread", ag_ui={"SLOW_VIEWER_SECONDS": 0.2}) as server:
        with visitor.send(server, body) as response:
            seen = response.until("RUN_STARTED")
            assert visitor.ended(body["runId"]).status == "finished"
            seen += response.frames()
        assert is_detached(seen[-1].event)
        check_ids(seen, run_id=body["runId"])
        whole = visitor.log(server, body["runId"])
    check_complete(visitor, body["runId"], whole)


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("kind", ["uvicorn", "gunicorn-gthread"])
def test_a_stream_lasts_no_longer_than_the_project_allows(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str, resumes: bool
):
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    headers = {"X-AGUI-Resume": "1"} if resumes else {}
    with start(kind, ag_ui={"MAX_STREAM_SECONDS": 1}) as server:
        with visitor.send(server, body, headers=headers) as response:
            cut = list(response.frames())
        check_ids(cut, run_id=body["runId"])
        assert types_of(cut)[-1] == ("TOOL_CALL_END" if resumes else "RUN_ERROR")
        assert is_detached(cut[-1].event) != resumes
        gates.open(held)
        visitor.ended(body["runId"])
        check_complete(visitor, body["runId"], visitor.log(server, body["runId"]))
    assert gates.count(held) == 1
