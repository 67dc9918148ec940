"""Frames leave one by one, on every kind of server; a silent stream is kept alive."""

import contextlib
import json
from http.client import HTTPConnection
from itertools import islice, pairwise

import pytest

from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, gate, pause, script, spell
from tests.live.statements import VARIABLE as STATEMENT_SECONDS
from tests.live.urls import KEEP_ALIVE_SECONDS
from tests.live.visitors import (
    WAIT_SECONDS,
    Visitor,
    check_complete,
    fresh,
    lines_of,
    run_input,
    text_of,
    types_of,
)
from tests.servers import HOST, Server
from tests.sse import check_ids, check_stream_headers, is_detached

# When a frame leaves a server is the same on every database.
pytestmark = pytest.mark.sqlite

FIRST_SECONDS = 5


def test_C03_each_frame_arrives_before_the_next_exists(server: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, first, second = fresh("run"), fresh("first"), fresh("second")
    with visitor.post(server, run_id, script([gate(first), "one ", gate(second), "two"])) as response:
        check_stream_headers(response)
        frames = response.until("RUN_STARTED")
        gates.open(first)
        frames += response.until("TEXT_MESSAGE_CONTENT")
        gates.open(second)
        frames += response.until("RUN_FINISHED")
        assert list(response.frames()) == []
    assert text_of(frames) == "one two"
    check_complete(visitor, run_id, frames)


def test_C01_comments_fill_the_silence_of_a_tool(server: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, held = fresh("run"), fresh("held")
    # Deltas that come just when a comment is due.
    deltas = ["a", *(step for _ in range(4) for step in (pause(KEEP_ALIVE_SECONDS), "b"))]
    body = run_input(run_id, script([call("hold", gate=held)], deltas))
    with (
        visitor.send(server, body, route="chatty/") as first,
        visitor.follow(server, run_id, mount="chatty/") as attached,
    ):
        streams = [(first, first.until("TOOL_CALL_END")), (attached, attached.until("TOOL_CALL_END"))]
        for response, frames in streams:
            comments = list(islice(response.frames(), 3))
            assert [frame.comment for frame in comments] == ["keep-alive"] * 3
            assert max(after.arrived - before.arrived for before, after in pairwise(comments)) < FIRST_SECONDS
            frames += comments
        gates.open(held)
        for response, frames in streams:
            frames += list(islice(response.frames(), 100))
            assert types_of(frames[-1:]) == ["RUN_FINISHED"]
            assert text_of(frames) == "abbbb"
            check_complete(visitor, run_id, frames)
    # The same bytes without the comments, which are neither stored nor counted.
    assert lines_of(streams[0][1]) == lines_of(streams[1][1])


def test_C03_a_wsgi_worker_without_threads_streams_for_a_bounded_time_and_the_run_goes_on(
    start: Start, visitor: Visitor, gates: Gatekeeper
):
    run_id, held = fresh("run"), fresh("held")
    body = run_input(run_id, script([call("hold", gate=held)], ["done"]))
    with start("gunicorn-sync", ag_ui={"WSGI_MAX_STREAM_SECONDS": 1}) as server:
        with visitor.send(server, body) as response:
            cut = list(response.frames())
        assert types_of(cut)[-2] == "TOOL_CALL_END"
        assert is_detached(cut[-1].event)
        check_ids(cut, run_id=run_id)
        with visitor.follow(server, run_id, headers={"X-AGUI-Resume": "1"}) as response:
            assert types_of(list(response.frames())) == types_of(cut)[:-1]
        gates.open(held)
        frames = visitor.log(server, run_id)
        assert "WSGI" in server.log()
    assert text_of(frames) == "done"
    assert gates.count(held) == 1
    check_complete(visitor, run_id, frames)


def test_C02_many_deltas_share_few_commits_of_a_slow_database(start: Start, visitor: Visitor):
    run_id, text = fresh("run"), "0123456789" * 200
    with start("uvicorn", env={STATEMENT_SECONDS: "0.02"}) as server:
        before = visitor.get(server, "probe/")[1]["statements"]
        frames = visitor.run(server, run_id, script([spell(text), call("quick", word="a")], [spell("end")]))
        asked = visitor.get(server, "probe/")[1]["statements"] - before
    assert text_of(frames) == f"{text}end"
    assert types_of(frames).count("TEXT_MESSAGE_CONTENT") == len(text) + 3
    check_complete(visitor, run_id, frames)
    assert 10 < asked < 200
    row = visitor.row(run_id)
    assert row.timing is not None
    assert row.timing["commits"] < 50


ROUTES = {"start": "agent/", "resume": "agent/resume/{}/", "fork": "agent/fork/{}/"}


@pytest.mark.parametrize("kind", ["uvicorn", "gunicorn-gthread"])
def test_C03_C30_a_project_full_of_middleware_holds_nothing_back(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    source, encodings = fresh("source"), {"Accept-Encoding": "gzip, br"}
    with start(kind, settings_module="tests.live.host_settings") as server:
        visitor.run(server, source, script(["x" * 1000]))
        assert len(visitor.get(server, "agent/runs/")[1]["runs"]) == 1
        for route in ROUTES.values():
            run_id, held = fresh("run"), fresh("held")
            posted = run_input(run_id, script([gate(held), call("write", text=held)], ["y" * 1000, "z"]))
            with (
                visitor.send(server, posted, route=route.format(source), headers=encodings) as started,
                visitor.follow(server, run_id, headers=encodings) as followed,
                visitor.send(server, posted, route=route.format(source), headers=encodings) as attached,
            ):
                streams = [started, followed, attached]
                for response in streams:
                    check_stream_headers(response)
                    assert "etag" not in response.headers
                seen = [response.until("RUN_STARTED") for response in streams]
                gates.open(held)
                for frames, response in zip(seen, streams, strict=True):
                    frames += response.frames()
            for frames in seen[:2]:
                assert text_of(frames) == "y" * 1000 + "z"
                check_complete(visitor, run_id, frames)
            assert seen[2][-1].raw == seen[0][-1].raw
            assert visitor.user is not None
            assert (gates.count(held), visitor.user.notes.filter(text=held).count()) == (2, 1)
        status, listed = visitor.get(server, "agent/runs/")
        assert (status, len(listed["runs"])) == (200, 4)
        assert "Traceback" not in server.log()


ACCEPTS = [None, "text/event-stream", "*/*", "application/json", "text/event-stream;q=0.9, application/json"]


@pytest.mark.parametrize("accept", ACCEPTS)
def test_C29_streams_stream_and_errors_are_json_whatever_is_accepted(
    uvicorn: Server, visitor: Visitor, accept: str | None
):
    source = fresh("source")
    visitor.run(uvicorn, source, script(["one"]))

    def ask(method: str, route: str, run_id: str = "", headers: dict[str, str] = visitor.headers) -> tuple[int, str]:
        given = {"Content-Type": "application/json"} | ({} if accept is None else {"Accept": accept})
        with contextlib.closing(HTTPConnection(HOST, uvicorn.port, timeout=WAIT_SECONDS)) as connection:
            connection.request(method, f"/{route}", json.dumps(run_input(run_id, script(["x"]))), headers | given)
            response = connection.getresponse()
            body, kind = response.read(), response.headers["Content-Type"]
        if response.status != 200:
            assert json.loads(body).keys() == {"error", "code"}
        return response.status, kind

    for route in ("agent/", f"agent/resume/{source}/", f"agent/fork/{source}/"):
        assert ask("POST", route, fresh("run")) == (200, "text/event-stream")
        assert ask("POST", route) == (400, "application/json")
        assert ask("POST", route, fresh("run"), {}) == (403, "application/json")
        assert ask("PUT", route) == (405, "application/json")
    assert ask("POST", "agent/resume/missing/", fresh("run")) == (404, "application/json")
    assert ask("POST", "agent/nowhere/", fresh("run")) == (404, "application/json")
    assert ask("POST", "agent/", source) == (409, "application/json")
    for route in ("agent/runs/", f"agent/runs/{source}/", "agent/tools/"):
        assert ask("GET", route) == (200, "application/json")
    assert ask("GET", "agent/runs/missing/") == (404, "application/json")
