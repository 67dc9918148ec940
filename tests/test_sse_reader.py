import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pytest

from tests.sse import (
    BadFrame,
    BadSequence,
    Frame,
    FrameSplitter,
    Response,
    StreamCut,
    check_event,
    check_ids,
    check_sequence,
    check_stream_headers,
    events_of,
    parse_frame,
    request,
)

STREAM = (
    'id: a%2Fb%3A%C3%A9:1\ndata: {"type":"CUSTOM","name":"ü","value":"\u2028\\n"}\n\n'
    ": keep-alive\n\n"
    'id: a%2Fb%3A%C3%A9:2\ndata: {"type":"CUSTOM","name":"n","value":"😀"}\n\n'
    'data: {"type":"RUN_ERROR","message":"detached","code":"detached"}\n\n'
).encode()


def split(*chunks: bytes) -> tuple[list[bytes], bytes]:
    splitter = FrameSplitter()
    return [raw for chunk in chunks for raw in splitter.feed(chunk)], splitter.rest


def test_frames_are_the_same_wherever_the_bytes_are_cut():
    whole, rest = split(STREAM)
    assert len(whole) == 4
    assert b"".join(whole) == STREAM
    assert rest == b""
    for position in range(len(STREAM) + 1):
        assert split(STREAM[:position], STREAM[position:]) == (whole, b"")
    assert split(*(bytes([byte]) for byte in STREAM)) == (whole, b"")


def test_an_unfinished_frame_and_a_stray_line_feed_stay_visible():
    assert split(b"data: 1\n\ndata: 2\n") == ([b"data: 1\n\n"], b"data: 2\n")
    frames, rest = split(b": a\n\n\n: b\n\n")
    assert (frames, rest) == ([b": a\n\n", b"\n: b\n\n"], b"")
    with pytest.raises(BadFrame):
        parse_frame(frames[1])


def test_a_frame_is_parsed_into_its_id_its_event_or_its_comment():
    first, comment, second, detached = [parse_frame(raw, 7.5) for raw in split(STREAM)[0]]
    assert (first.run_id, first.seq, first.id) == ("a/b:é", 1, "a%2Fb%3A%C3%A9:1")
    assert first.event == {"type": "CUSTOM", "name": "ü", "value": "\u2028\n"}
    assert (comment.comment, comment.event, comment.id) == ("keep-alive", None, None)
    assert second.seq == 2
    assert second.arrived == 7.5
    assert (detached.id, detached.event) == (None, {"type": "RUN_ERROR", "message": "detached", "code": "detached"})
    assert len(events_of([first, comment, second, detached])) == 3


@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"type":"X"}\r\n\r\n',
        b'data: {"type":"X"}\r\n\n',
        b'data: {"type":"X"}\n',
        b'data: {"type":"X"}\n\n\n',
        b'data:{"type":"X"}\n\n',
        b'event: X\ndata: {"type":"X"}\n\n',
        b'data: {"type":"X"}\nid: r:1\n\n',
        b'data: {"type":\ndata: "X"}\n\n',
        b': note\ndata: {"type":"X"}\n\n',
        b":keep-alive\n\n",
        b"id: r:1\n\n",
        b"retry: 5\n\n",
        b"data: [DONE]\n\n",
        b'data: "X"\n\n',
        b'data: {"kind":"X"}\n\n',
        b'data: {"type":"X","value":NaN}\n\n',
        b'data: {"type":"X","value":-Infinity}\n\n',
        b'data: {"type":"X","type":"Y"}\n\n',
        b'data: {"type":"X","value":"\\ud800"}\n\n',
        b'data: {"type":"X","value":"\xff"}\n\n',
        b'id: r:0\ndata: {"type":"X"}\n\n',
        b'id: r:01\ndata: {"type":"X"}\n\n',
        b'id: 1\ndata: {"type":"X"}\n\n',
        b'id: a/b:1\ndata: {"type":"X"}\n\n',
        b'id: a%2fb:1\ndata: {"type":"X"}\n\n',
        b'id: %FF:1\ndata: {"type":"X"}\n\n',
        b"\n\n",
    ],
)
def test_what_the_contract_does_not_write_is_refused(raw):
    with pytest.raises(BadFrame):
        parse_frame(raw)


class Peer:
    """A server whose every byte the test sends itself."""

    def __init__(self, listener: socket.socket, pool: ThreadPoolExecutor, stack: ExitStack) -> None:
        self.listener = listener
        self.pool = pool
        self.stack = stack
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/agent/?after=2"

    def answer(self, head: bytes, **options: Any) -> tuple[Response, socket.socket, bytes]:
        """Send one request to this server; return its response, the server's end of the socket, the request's bytes."""
        waiting = self.pool.submit(request, "POST", self.url, timeout=10, **options)
        connection = self.stack.enter_context(self.listener.accept()[0])
        connection.settimeout(10)
        received = connection.recv(65536)
        while not (received.endswith(b"}") if "json_body" in options else received.endswith(b"\r\n\r\n")):
            received += connection.recv(65536)
        connection.sendall(head)
        return self.stack.enter_context(waiting.result()), connection, received


@pytest.fixture
def peer() -> Iterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool, ExitStack() as stack:
        listener.settimeout(10)
        yield Peer(listener, pool, stack)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_a_frame_is_handed_out_before_the_next_one_is_sent(peer):
    response, server, _ = peer.answer(CHUNKED)
    frames = response.raw_frames()
    arrivals = [response.sent]
    for raw in split(STREAM)[0]:
        server.sendall(chunk(raw))
        arrived, read = next(frames)
        assert read == raw
        assert arrived >= arrivals[-1]
        arrivals.append(arrived)
    server.sendall(chunk(b""))
    assert list(frames) == []
    assert list(response.frames()) == []


def test_the_request_is_sent_as_given(peer):
    response, _, sent = peer.answer(
        b"HTTP/1.1 201 Created\r\nX-Name: v\r\nContent-Length: 2\r\n\r\n{}",
        json_body={"a": "é"},
        headers={"Cookie": "sessionid=1", "Last-Event-ID": "r:1"},
    )
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /agent/?after=2 http/1.1"
    assert {b"cookie: sessionid=1", b"last-event-id: r:1", b"content-type: application/json"} <= set(lines)
    assert body == b'{"a": "\\u00e9"}'
    assert (response.status, response.headers["x-name"], response.json()) == (201, "v", {})


def test_a_loop_that_was_left_goes_on_where_it_stopped(peer):
    response, server, _ = peer.answer(CHUNKED)
    server.sendall(chunk(STREAM) + chunk(b""))
    assert [frame.event["type"] for frame in response.until("CUSTOM") if frame.event] == ["CUSTOM"]
    assert [frame.seq for frame in response.frames()] == [None, 2, None]
    with pytest.raises(BadSequence, match="no CUSTOM"):
        response.until("CUSTOM")


def test_a_body_that_ends_inside_a_frame_is_refused(peer):
    response, server, _ = peer.answer(CHUNKED)
    server.sendall(chunk(STREAM[:-1]) + chunk(b""))
    with pytest.raises(BadFrame, match="inside a frame"):
        list(response.frames())


def test_a_connection_that_ends_before_the_body_is_a_cut(peer):
    response, server, _ = peer.answer(CHUNKED)
    server.sendall(chunk(STREAM))
    server.close()
    frames = response.raw_frames()
    assert [raw for _, raw in islice(frames, 4)] == split(STREAM)[0]
    with pytest.raises(StreamCut):
        next(frames)


def test_closing_reaches_the_server_in_order_or_as_a_reset(peer):
    response, server, _ = peer.answer(CHUNKED)
    response.close()
    assert server.recv(1) == b""
    response, server, _ = peer.answer(CHUNKED)
    response.close(reset=True)
    with pytest.raises(ConnectionResetError):
        server.recv(1)


def test_silence_is_a_timeout(peer):
    response, _, _ = peer.answer(CHUNKED)
    response.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        next(response.frames())


STREAM_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache, no-transform\r\n"
    "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("200 OK", "202 Accepted"),
        ("text/event-stream", "text/plain"),
        ("no-cache, no-transform", "no-cache"),
        ("X-Accel-Buffering: no", "X-Accel-Buffering: yes"),
        ("Transfer-Encoding: chunked", "Content-Length: 0"),
        ("Transfer-Encoding: chunked", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked"),
    ],
)
def test_headers_of_a_stream_are_judged(peer, good, bad):
    check_stream_headers(peer.answer(STREAM_HEAD.encode())[0])
    response = peer.answer(STREAM_HEAD.replace(good, bad).encode())[0]
    with pytest.raises(AssertionError):
        check_stream_headers(response)


def logged(*ids: tuple[str, int] | None, code: str = "x") -> list[Frame]:
    event = {"type": "RUN_ERROR", "message": "m", "code": code}
    return [Frame(b"", run_id=i[0], seq=i[1], event=event) if i else Frame(b"", event=event) for i in ids]


def test_ids_count_up_from_the_cursor_without_a_hole():
    check_ids(logged(("r", 1), ("r", 2)), run_id="r")
    check_ids([*logged(("r", 3)), Frame(b"", comment="keep-alive"), *logged(("r", 4))], run_id="r", after=2)
    check_ids(logged(("r", 1), None, code="detached"), run_id="r")
    check_ids([], run_id="r")


@pytest.mark.parametrize(
    "frames",
    [
        logged(("r", 2)),
        logged(("r", 1), ("r", 3)),
        logged(("r", 1), ("r", 1)),
        logged(("r", 2), ("r", 1)),
        logged(("q", 1)),
        logged(("r", 1), None),
        logged(None, ("r", 1), code="detached"),
    ],
)
def test_other_ids_are_refused(frames):
    with pytest.raises(BadSequence):
        check_ids(frames, run_id="r")


STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
FAILED = {"type": "RUN_ERROR", "message": "m", "code": "failed"}
TEXT = [
    {"type": "TEXT_MESSAGE_START", "messageId": "m"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
]
REASONING = [
    {"type": "REASONING_START", "messageId": "g"},
    {"type": "REASONING_MESSAGE_START", "messageId": "g", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "g", "delta": "x"},
    {"type": "REASONING_MESSAGE_END", "messageId": "g"},
    {"type": "REASONING_END", "messageId": "g"},
]
CALL = [
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
]
RESULT = {"type": "TOOL_CALL_RESULT", "messageId": "o", "toolCallId": "c", "content": "1"}
STEP = [{"type": "STEP_STARTED", "stepName": "s"}, {"type": "STEP_FINISHED", "stepName": "s"}]
SUBAGENT = [
    {"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "n"},
    {"type": "SUBAGENT_FINISHED", "subagentRunId": "a"},
]
SNAPSHOT = {
    "type": "MESSAGES_SNAPSHOT",
    "messages": [
        {
            "id": "m",
            "role": "assistant",
            "toolCalls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}],
        }
    ],
}


def finished(**outcome: Any) -> dict[str, Any]:
    return {**FINISHED, "outcome": outcome}


def owned(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "subagentRunId": "a"}


def interrupt(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"i{number}", "reason": "approval", **fields}


PENDING = finished(type="success", pendingToolCallIds=["c"])
ASKS = finished(type="interrupt", interrupts=[interrupt(1, toolCallId="c")])


@pytest.mark.parametrize(
    "events",
    [
        [STARTED, FINISHED],
        [STARTED, FAILED],
        [STARTED, *REASONING, *TEXT, *CALL, RESULT, *STEP, *SUBAGENT, FINISHED],
        [STARTED, TEXT[0], CALL[0], TEXT[1], CALL[1], TEXT[2], CALL[2], RESULT, FINISHED],
        [STARTED, *TEXT, *TEXT, FINISHED],
        [STARTED, *CALL, FAILED],
        [STARTED, *CALL, finished(type="cancelled")],
        [STARTED, *CALL, PENDING],
        [STARTED, *CALL, ASKS],
        [STARTED, SNAPSHOT, RESULT, FINISHED],
        [STARTED, SNAPSHOT, *CALL, RESULT, FINISHED],
        [{**STARTED, "input": {"threadId": "t", "runId": "r", "messages": SNAPSHOT["messages"]}}, RESULT, FINISHED],
        [STARTED, STEP[0], SUBAGENT[0], owned(STEP[0]), owned(STEP[1]), SUBAGENT[1], STEP[1], FINISHED],
        [STARTED, SUBAGENT[0], owned(TEXT[0]), owned(TEXT[1]), TEXT[2], SUBAGENT[1], FINISHED],
        [STARTED, TEXT[0], {**FAILED, "code": "detached"}],
        [STARTED, {"type": "CUSTOM", "name": "n", "value": None, "metadata": {"k": None}}, FINISHED],
        [STARTED, {"type": "STATE_SNAPSHOT", "snapshot": {"k": None}}, FINISHED],
        [STARTED, {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/k", "value": None}]}, FINISHED],
        [STARTED, {"type": "STATE_DELTA", "delta": [{"op": "move", "path": "/k", "from": "/l"}]}, FINISHED],
    ],
)
def test_legal_runs_pass(events):
    assert check_sequence(events) == events[-1]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "no terminal"),
        ([STARTED], "no terminal"),
        ([STARTED, *TEXT], "no terminal"),
        ([FINISHED], "RUN_STARTED belongs"),
        ([FAILED], "RUN_STARTED belongs"),
        ([*TEXT, STARTED, FINISHED], "event 0: .*RUN_STARTED belongs"),
        ([{"type": "CUSTOM", "name": "n", "value": 1}, STARTED, FINISHED], "RUN_STARTED belongs"),
        ([STARTED, STARTED, FINISHED], "event 1: RUN_STARTED where a run is open"),
        ([STARTED, FINISHED, FINISHED], "RUN_FINISHED after RUN_FINISHED"),
        ([STARTED, FAILED, FINISHED], "RUN_FINISHED after RUN_ERROR"),
        ([STARTED, FINISHED, FAILED], "RUN_ERROR after RUN_FINISHED"),
        ([STARTED, FINISHED, *TEXT], "TEXT_MESSAGE_START after"),
        ([STARTED, FINISHED, STARTED], "RUN_STARTED after"),
        ([STARTED, {**FINISHED, "runId": "q"}], "runId 'q'"),
        ([STARTED, {**FINISHED, "threadId": "q"}], "threadId 'q'"),
        *[
            ([STARTED, *items[:-1], terminal], "while open")
            for items in (TEXT, REASONING, REASONING[:4], CALL, STEP, SUBAGENT)
            for terminal in (FINISHED, FAILED, finished(type="cancelled"))
        ],
        *[([STARTED, item, FINISHED], "is not open") for item in (*TEXT[1:], *REASONING[2:], *CALL[1:])],
        *[([STARTED, item, FINISHED], "is not open") for item in (STEP[1], SUBAGENT[1])],
        *[([STARTED, *items, items[-1], FINISHED], "is not open") for items in (TEXT, CALL, STEP, SUBAGENT)],
        ([STARTED, *TEXT, TEXT[1], FINISHED], "is not open"),
        *[([STARTED, items[0], *items, FINISHED], "is open already") for items in (TEXT, REASONING, CALL, STEP)],
        ([STARTED, *CALL, RESULT, *CALL, FINISHED], "was there before"),
        ([STARTED, *SUBAGENT, *SUBAGENT, FINISHED], "was there before"),
        ([STARTED, {**SUBAGENT[0], "parentSubagentRunId": "b"}, SUBAGENT[1], FINISHED], "never started"),
        ([STARTED, TEXT[0], owned(TEXT[1]), TEXT[2], FINISHED], "belongs to None"),
        ([STARTED, STEP[0], owned(STEP[1]), FINISHED], "is not open"),
        ([STARTED, *CALL, FINISHED], "without a result"),
        ([STARTED, *CALL, finished(type="success")], "without a result"),
        ([STARTED, *CALL, finished(type="success", pendingToolCallIds=["d"])], "pendingToolCallIds"),
        ([STARTED, *CALL, RESULT, PENDING], "pendingToolCallIds"),
        ([STARTED, *CALL, finished(type="interrupt", interrupts=[interrupt(1)])], "without a result"),
        ([STARTED, finished(type="interrupt", interrupts=[interrupt(1), interrupt(1)])], "one id"),
        ([STARTED, finished(type="interrupt", interrupts=[])], "no event of AG-UI"),
        ([STARTED, RESULT, FINISHED], "is unknown"),
        ([STARTED, *CALL[:2], RESULT, CALL[2], FINISHED], "still open"),
        ([STARTED, *CALL, RESULT, RESULT, FINISHED], "has a result already"),
        ([STARTED, {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"}, FINISHED], "shorthand"),
        (
            [STARTED, {"type": "ACTIVITY_DELTA", "messageId": "x", "activityType": "y", "patch": []}, FINISHED],
            "unknown activity",
        ),
    ],
)
def test_illegal_runs_are_refused(events, reason):
    with pytest.raises(BadSequence, match=reason):
        check_sequence(events)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "NO_SUCH_EVENT"}, "no event of AG-UI"),
        ({"type": "THINKING_START"}, "no event of AG-UI"),
        ({"type": "TEXT_MESSAGE_START"}, "no event of AG-UI"),
        ({**TEXT[1], "delta": 1}, "no event of AG-UI"),
        ({**TEXT[0], "role": "tool"}, "no event of AG-UI"),
        ({**TEXT[0], "timestamp": "1"}, "no event of AG-UI"),
        ({**TEXT[0], "name": None}, r"TEXT_MESSAGE_START\.name is null"),
        ({**TEXT[0], "rawEvent": None}, "rawEvent is null"),
        ({**FINISHED, "outcome": None}, "outcome is null"),
        ({**FINISHED, "result": None}, "result is null"),
        ({**TEXT[0], "extra": 1}, "no field extra"),
        ({"type": "TEXT_MESSAGE_START", "message_id": "m"}, "no field message_id"),
        ({**STARTED, "input": {"threadId": "t", "runId": "r", "messages": [], "extra": 1}}, "no field extra"),
        ({**STARTED, "input": {"threadId": "t", "runId": "r", "messages": [], "state": None}}, "state is null"),
        (finished(type="success", interrupts=[]), "no field interrupts"),
        (finished(type="interrupt", interrupts=[interrupt(1, message=None)]), r"interrupts\[0\].message is null"),
        (
            {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "user", "content": "x", "name": None}]},
            r"messages\[0\].name is null",
        ),
    ],
)
def test_events_that_are_not_of_ag_ui_1_0_are_refused(event, reason):
    with pytest.raises(BadSequence, match=reason):
        check_event(event)


def test_what_a_stream_alone_cannot_tell_is_told_by_the_caller():
    left_early = [STARTED, *TEXT[:2]]
    assert check_sequence(left_early, partial=True) is None
    check_sequence([STARTED, *CALL, FINISHED], pending=["c"])
    check_sequence([STARTED, RESULT, FINISHED], known_calls=["c"])
    check_sequence([*left_early, FAILED], closed_on_error=False)
    with pytest.raises(BadSequence, match="is not open"):
        check_sequence([STARTED, TEXT[1]], partial=True)
