"""Frames leave one by one, on every kind of server; a silent stream is kept alive."""

import pytest

from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, gate, pause, script
from tests.live.urls import KEEP_ALIVE_SECONDS
from tests.live.visitors import Visitor, check_complete, fresh, lines_of, run_input, text_of, types_of
from tests.servers import Server
from tests.sse import check_stream_headers


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
    body = run_input(run_id, script([call("hold", gate=held)], ["done"]))
    with visitor.send(server, body, route="chatty/") as response, visitor.send(server, body, route="chatty/") as second:
        frames, attached = response.until("TOOL_CALL_END"), second.until("TOOL_CALL_END")
        for stream, seen in ((response, frames), (second, attached)):
            comments = [frame for frame, _ in zip(stream.frames(), range(3), strict=False)]
            assert [frame.comment for frame in comments] == ["keep-alive"] * 3
            spaces = [b.arrived - a.arrived for a, b in zip(comments, comments[1:], strict=False)]
            assert max(spaces) < 20 * KEEP_ALIVE_SECONDS
            seen += comments
        gates.open(held)
        frames += response.until("RUN_FINISHED")
        attached += second.until("RUN_FINISHED")
        assert list(response.frames()) == list(second.frames()) == []
    check_complete(visitor, run_id, frames)
    assert lines_of(attached) == lines_of(frames)
