"""Read AG-UI event streams byte for byte, and judge them by contract and protocol."""

import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import quote, unquote, urlsplit

import h11
from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter, ValidationError

BUFFER_BYTES = 65536
EVENT: TypeAdapter[BaseModel] = TypeAdapter(Event)


class BadFrame(AssertionError):
    """Bytes that are no frame of the contract."""


class BadSequence(AssertionError):
    """Events that are no run of AG-UI 1.0."""


class StreamCut(Exception):
    """The connection ended before the response did."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: a comment, or an event with or without an id. `arrived` is in seconds of time.monotonic()."""

    raw: bytes
    arrived: float = 0.0
    comment: str | None = None
    run_id: str | None = None
    seq: int | None = None
    event: dict[str, Any] | None = None

    @property
    def id(self) -> str | None:
        """The id as it stands on the wire, for a Last-Event-ID header."""
        return None if self.run_id is None else f"{quote(self.run_id, safe='')}:{self.seq}"


class FrameSplitter:
    """Cut a byte stream into raw frames, however it arrives."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes and return the frames that they complete, each with its empty line."""
        frames = []
        searched = max(len(self.rest) - 1, 0)
        self.rest += data
        while (end := self.rest.find(b"\n\n", searched)) >= 0:
            frames.append(self.rest[: end + 2])
            self.rest = self.rest[end + 2 :]
            searched = 0
        return frames


def _refuse_constant(name: str) -> NoReturn:
    raise BadFrame(f"{name} is no JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    answer = dict(pairs)
    if len(answer) != len(pairs):
        raise BadFrame(f"a key stands twice in {[key for key, _ in pairs]}")
    return answer


def _parse_event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
        json.dumps(event, ensure_ascii=False).encode()
    except ValueError as error:
        raise BadFrame(f"the data is no JSON: {error}: {line!r}") from error
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise BadFrame(f"the data is no event: {line!r}")
    return event


def _parse_id(text: str) -> tuple[str, int]:
    quoted, _, seq = text.rpartition(":")
    try:
        run_id = unquote(quoted, errors="strict")
    except UnicodeDecodeError as error:
        raise BadFrame(f"{text!r} quotes no UTF-8") from error
    if not run_id or quote(run_id, safe="") != quoted or not re.fullmatch("[1-9][0-9]*", seq):
        raise BadFrame(f"{text!r} is no <quoted run id>:<seq>")
    return run_id, int(seq)


def parse_frame(raw: bytes, arrived: float = 0.0) -> Frame:
    """Parse one raw frame as strictly as section 4 of the contract writes it; raise BadFrame."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadFrame(f"no UTF-8: {raw!r}") from error
    if "\r" in text:
        raise BadFrame(f"a carriage return: {raw!r}")
    lines = text.split("\n")
    if len(lines) < 3 or lines[-2:] != ["", ""]:
        raise BadFrame(f"not closed by one empty line: {raw!r}")
    match lines[:-2]:
        case [comment] if comment.startswith(": "):
            return Frame(raw, arrived, comment=comment[2:])
        case [data] if data.startswith("data: "):
            return Frame(raw, arrived, event=_parse_event(data[6:]))
        case [name, data] if name.startswith("id: ") and data.startswith("data: "):
            run_id, seq = _parse_id(name[4:])
            return Frame(raw, arrived, run_id=run_id, seq=seq, event=_parse_event(data[6:]))
        case _:
            raise BadFrame(f"neither comment nor event: {raw!r}")


def events_of(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    """Return the events of `frames`, without the comments."""
    return [frame.event for frame in frames if frame.event is not None]


class Response:
    """An HTTP/1.1 response whose body is read as it arrives.

    A body that is neither chunked nor of announced length ends regularly when the connection does.

    `status`, `headers` (names in lower case; of a repeated one the last value), `sent` (time.monotonic() when the
    request had been written). `timeout` is in seconds and covers each wait for bytes; TimeoutError when it passes.
    """

    def __init__(self, connection: socket.socket, protocol: h11.Connection, sent: float) -> None:
        self.socket = connection
        self.sent = sent
        self._protocol = protocol
        self._splitter = FrameSplitter()
        self._frames: list[tuple[float, bytes]] = []
        self._ended = False
        head = self._next_event()
        while isinstance(head, h11.InformationalResponse):
            head = self._next_event()
        if not isinstance(head, h11.Response):
            raise StreamCut(f"no response, but {head!r}")
        self.status = head.status_code
        self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in head.headers}

    def _next_event(self) -> Any:
        while True:
            try:
                event = self._protocol.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._protocol.receive_data(self.socket.recv(BUFFER_BYTES))
            except (h11.RemoteProtocolError, ConnectionError) as error:
                raise StreamCut(str(error)) from error

    def chunks(self) -> Iterator[tuple[float, bytes]]:
        """Yield (arrival, bytes) as read from the socket, to the regular end of the body; raise StreamCut."""
        while not self._ended:
            event = self._next_event()
            if isinstance(event, h11.Data):
                yield time.monotonic(), bytes(event.data)
            else:
                self._ended = True

    def read(self) -> bytes:
        """Return the rest of the body."""
        return b"".join(data for _, data in self.chunks())

    def json(self) -> Any:
        """Return the rest of the body, parsed."""
        return json.loads(self.read())

    def raw_frames(self) -> Iterator[tuple[float, bytes]]:
        """Yield (arrival, raw frame) one by one; a later call goes on where the last one stopped.

        Raises BadFrame when the body ends regularly inside a frame, StreamCut when it is cut.
        """
        while True:
            while self._frames:
                yield self._frames.pop(0)
            chunk = next(self.chunks(), None)
            if chunk is None:
                break
            arrived, data = chunk
            self._frames += [(arrived, raw) for raw in self._splitter.feed(data)]
        if self._splitter.rest:
            raise BadFrame(f"the body ends inside a frame: {self._splitter.rest!r}")

    def frames(self) -> Iterator[Frame]:
        """Yield parsed frames, comments included, one by one."""
        for arrived, raw in self.raw_frames():
            yield parse_frame(raw, arrived)

    def until(self, event_type: str) -> list[Frame]:
        """Read up to and including the first event of `event_type`; the stream must hold one."""
        seen = []
        for frame in self.frames():
            seen.append(frame)
            if frame.event is not None and frame.event["type"] == event_type:
                return seen
        raise BadSequence(f"no {event_type} among {[event['type'] for event in events_of(seen)]}")

    def close(self, *, reset: bool = False) -> None:
        """Cut the socket: in order (FIN), or with `reset` at once (RST)."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    json_body: Any = None,
    body: bytes = b"",
    timeout: float = 30,
) -> Response:
    """Send one HTTP/1.1 request over a socket of its own and return when the response's head is there.

    `json_body` is sent as application/json in place of `body`. Redirects are not followed. Raises StreamCut,
    TimeoutError, ConnectionError.
    """
    parts = urlsplit(url)
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if json_body is not None:
        body = json.dumps(json_body).encode()
        given.setdefault("content-type", "application/json")
    if body:
        given.setdefault("content-length", str(len(body)))
    given = {"host": parts.netloc, "accept": "*/*"} | given
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    protocol = h11.Connection(h11.CLIENT)
    connection = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=timeout)
    try:
        head = h11.Request(method=method, target=target, headers=list(given.items()))
        for event in (head, h11.Data(body), h11.EndOfMessage()):
            connection.sendall(protocol.send(event) or b"")
        return Response(connection, protocol, time.monotonic())
    except BaseException:
        connection.close()
        raise


def check_stream_headers(response: Response) -> None:
    """Check status and headers of an event stream against section 4 of the contract."""
    headers = response.headers
    assert response.status == 200, response.status
    assert headers["content-type"].split(";")[0] == "text/event-stream", headers
    assert {part.strip() for part in headers["cache-control"].split(",")} >= {"no-cache", "no-transform"}, headers
    assert headers["x-accel-buffering"] == "no", headers
    assert "content-length" not in headers, headers
    assert headers.get("content-encoding", "identity") == "identity", headers


def check_ids(frames: Sequence[Frame], *, run_id: str, after: int = 0) -> None:
    """Check that `frames` are a run's log from seq `after` + 1 on, without a hole; an id-less `detached` may end it."""
    logged = [frame for frame in frames if frame.event is not None]
    if logged and logged[-1].id is None and is_detached(logged[-1].event):
        logged.pop()
    expected = [(run_id, after + number) for number in range(1, len(logged) + 1)]
    found = [(frame.run_id, frame.seq) for frame in logged]
    if found != expected:
        raise BadSequence(f"ids {found} in place of {expected}")


def is_detached(event: Mapping[str, Any] | None) -> bool:
    """Tell whether `event` ends a stream, and not its run."""
    return event is not None and event["type"] == "RUN_ERROR" and event.get("code") == "detached"


def _check_fields(value: Any, parsed: Any, path: str) -> None:
    if isinstance(parsed, BaseModel):
        fields = {field.alias or name: (name, field) for name, field in type(parsed).model_fields.items()}
        if unknown := value.keys() - fields.keys():
            raise BadSequence(f"{path}: AG-UI 1.0 has no field {', '.join(sorted(unknown))}")
        for key, item in value.items():
            name, field = fields[key]
            if item is None and not field.is_required():
                raise BadSequence(f"{path}.{key} is null in place of absent")
            _check_fields(item, getattr(parsed, name), f"{path}.{key}")
    elif isinstance(parsed, list):
        for index, (item, child) in enumerate(zip(value, parsed, strict=True)):
            _check_fields(item, child, f"{path}[{index}]")


def check_event(event: Mapping[str, Any]) -> None:
    """Check that `event` has the types of AG-UI 1.0, no unknown field and no null that stands for absence."""
    try:
        parsed = EVENT.validate_json(json.dumps(event), strict=True)
    except ValidationError as error:
        raise BadSequence(f"{event} is no event of AG-UI 1.0: {error}") from error
    _check_fields(event, parsed, str(event["type"]))


class Step(NamedTuple):
    """What one event type does to an item that the stream opens and closes."""

    effect: Literal["open", "inside", "close"]
    kind: str
    key: str


STEPS = {
    "TEXT_MESSAGE_START": Step("open", "text message", "messageId"),
    "TEXT_MESSAGE_CONTENT": Step("inside", "text message", "messageId"),
    "TEXT_MESSAGE_END": Step("close", "text message", "messageId"),
    "REASONING_START": Step("open", "reasoning", "messageId"),
    "REASONING_END": Step("close", "reasoning", "messageId"),
    "REASONING_MESSAGE_START": Step("open", "reasoning message", "messageId"),
    "REASONING_MESSAGE_CONTENT": Step("inside", "reasoning message", "messageId"),
    "REASONING_MESSAGE_END": Step("close", "reasoning message", "messageId"),
    "TOOL_CALL_START": Step("open", "tool call", "toolCallId"),
    "TOOL_CALL_ARGS": Step("inside", "tool call", "toolCallId"),
    "TOOL_CALL_END": Step("close", "tool call", "toolCallId"),
    "STEP_STARTED": Step("open", "step", "stepName"),
    "STEP_FINISHED": Step("close", "step", "stepName"),
    "SUBAGENT_STARTED": Step("open", "subagent", "subagentRunId"),
    "SUBAGENT_FINISHED": Step("close", "subagent", "subagentRunId"),
    "SUBAGENT_ERROR": Step("close", "subagent", "subagentRunId"),
}
ONCE_PER_RUN = ("tool call", "subagent")


class RunState:
    """What is open, called and answered at one point of a run's stream."""

    def __init__(self, known_calls: Collection[str]) -> None:
        self.started: Mapping[str, Any] | None = None
        self.terminal: Mapping[str, Any] | None = None
        self.open: dict[tuple[str, Hashable], str | None] = {}
        self.used: set[tuple[str, Hashable]] = set()
        self.calls: list[str] = []
        self.known_calls = set(known_calls)
        self.answered: set[str] = set()
        self.activities: set[str] = set()

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take one event; raise BadSequence when it may not stand here."""
        kind = event["type"]
        if self.terminal is not None:
            raise BadSequence(f"{kind} after {self.terminal['type']}")
        if (self.started is None) != (kind == "RUN_STARTED"):
            raise BadSequence(f"{kind} where {'RUN_STARTED belongs' if self.started is None else 'a run is open'}")
        if kind.endswith("_CHUNK"):
            raise BadSequence(f"{kind} is a shorthand; a log holds what it stands for")
        if kind in STEPS:
            self._apply_step(STEPS[kind], event)
        elif kind == "RUN_STARTED":
            self.started = event
            self._learn(event.get("input", {}).get("messages", []))
        elif kind == "MESSAGES_SNAPSHOT":
            self._learn(event["messages"])
        elif kind == "TOOL_CALL_RESULT":
            self._apply_result(event["toolCallId"])
        elif kind == "ACTIVITY_SNAPSHOT":
            self.activities.add(event["messageId"])
        elif kind == "ACTIVITY_DELTA" and event["messageId"] not in self.activities:
            raise BadSequence(f"{kind} for the unknown activity {event['messageId']!r}")
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self.terminal = event

    def _learn(self, messages: Sequence[Mapping[str, Any]]) -> None:
        for message in messages:
            self.known_calls.update(call["id"] for call in message.get("toolCalls", []))
            if message["role"] == "tool":
                self.answered.add(message["toolCallId"])
            elif message["role"] == "activity":
                self.activities.add(message["id"])

    def _apply_step(self, step: Step, event: Mapping[str, Any]) -> None:
        owner = None if step.kind == "subagent" else event.get("subagentRunId")
        name = event[step.key]
        item = (step.kind, (owner, name) if step.kind == "step" else name)
        if step.effect == "open":
            if item in self.open:
                raise BadSequence(f"{event['type']}: the {step.kind} {name!r} is open already")
            if step.kind in ONCE_PER_RUN and item in self.used:
                raise BadSequence(f"{event['type']}: the {step.kind} {name!r} was there before")
            parent = event.get("parentSubagentRunId")
            if parent is not None and ("subagent", parent) not in self.used:
                raise BadSequence(f"{event['type']}: the parent {parent!r} was never started")
            self.open[item] = owner
            self.used.add(item)
            if step.kind == "tool call":
                self.calls.append(name)
        else:
            if item not in self.open:
                raise BadSequence(f"{event['type']}: the {step.kind} {name!r} is not open")
            if owner is not None and owner != self.open[item]:
                raise BadSequence(f"{event['type']}: the {step.kind} {name!r} belongs to {self.open[item]!r}")
            if step.effect == "close":
                del self.open[item]

    def _apply_result(self, call: str) -> None:
        if ("tool call", call) in self.open:
            raise BadSequence(f"TOOL_CALL_RESULT: the tool call {call!r} is still open")
        if call not in self.calls and call not in self.known_calls:
            raise BadSequence(f"TOOL_CALL_RESULT: the tool call {call!r} is unknown")
        if call in self.answered:
            raise BadSequence(f"TOOL_CALL_RESULT: the tool call {call!r} has a result already")
        self.answered.add(call)

    def check_end(self, *, pending: Collection[str], closed_on_error: bool) -> None:
        """Check what must hold at the end of a whole stream."""
        if self.terminal is None or self.started is None:
            raise BadSequence("no terminal event")
        if is_detached(self.terminal):
            return
        failed = self.terminal["type"] == "RUN_ERROR"
        if self.open and (closed_on_error or not failed):
            raise BadSequence(f"{self.terminal['type']} while open: {list(self.open)}")
        if failed:
            return
        for key in ("threadId", "runId"):
            if self.terminal[key] != self.started[key]:
                raise BadSequence(f"{key} {self.terminal[key]!r} at the end of {self.started[key]!r}")
        self._check_answers(self.terminal.get("outcome", {"type": "success"}), set(pending))

    def _check_answers(self, outcome: Mapping[str, Any], pending: set[str]) -> None:
        unanswered = {call for call in self.calls if call not in self.answered}
        named = outcome.get("pendingToolCallIds", [])
        if outcome["type"] == "cancelled":
            return
        if named and set(named) != unanswered:
            raise BadSequence(f"pendingToolCallIds {named}, but without result are {sorted(unanswered)}")
        interrupts = outcome.get("interrupts", [])
        if len({interrupt["id"] for interrupt in interrupts}) != len(interrupts):
            raise BadSequence("two interrupts with one id")
        pending |= {*named, *(interrupt["toolCallId"] for interrupt in interrupts if "toolCallId" in interrupt)}
        if unanswered - pending:
            raise BadSequence(f"tool calls without a result: {sorted(unanswered - pending)}")


def check_sequence(
    events: Sequence[Mapping[str, Any]],
    *,
    pending: Collection[str] = (),
    known_calls: Collection[str] = (),
    partial: bool = False,
    closed_on_error: bool = True,
) -> Mapping[str, Any] | None:
    """Check that `events` are one run by the rules of AG-UI 1.0 and the contract; return its terminal event.

    Each event is checked by `check_event`. RUN_STARTED comes first and once, one terminal event comes last, what is
    opened is closed, content stands only inside its open item, and a tool call has a result unless the outcome or
    `pending` names it. `known_calls` are calls of earlier runs that may get their result here. `partial` takes a stream
    that was left early. AG-UI lets RUN_ERROR leave items open and this project does not: `closed_on_error`.
    Raises BadSequence with the place.
    """
    state = RunState(known_calls)
    for index, event in enumerate(events):
        try:
            check_event(event)
            state.apply(event)
        except BadSequence as error:
            raise BadSequence(f"event {index}: {error}") from error.__cause__
    if not partial:
        state.check_end(pending=pending, closed_on_error=closed_on_error)
    return state.terminal
