"""What happened in a run, in the order of its log: one entry for each message, tool call or other event."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from ag_ui.core import EventType
from django.utils.translation import gettext
from pydantic_core import from_json

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.contrib.store.models.threads import Role
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.log.call_ids import model_id
from django_pydantic_agent.log.frames import JsonObject, begins_attempt

R = TypeVar("R")

READ_BYTES = 256 * 1024
MAX_ENTRIES = 100
MAX_EVENTS = 100

MESSAGE, REASONING, CALL, EVENT = "message", "reasoning", "call", "event"
_SHOWN_OF_EFFECT = ("call_digest", "status", "reason", "started_at", "ended_at", "verdict", "verdict_by")
_PIECES = frozenset({EventType.TEXT_MESSAGE_CONTENT, EventType.REASONING_MESSAGE_CONTENT, EventType.TOOL_CALL_ARGS})
_ENDS = frozenset({EventType.TEXT_MESSAGE_END, EventType.REASONING_MESSAGE_END, EventType.TOOL_CALL_END})


@dataclass(slots=True)
class Entry:
    """Events that belong together, the first of which on its page is number `seq`.

    `kind` is `message`, `reasoning`, `call` or `event`. `result_seq` is the event of a call's result, 0 where that is
    not on the page.
    """

    seq: int
    kind: str
    title: str
    call_id: str = ""
    at: datetime | None = None
    pieces: list[str] = field(default_factory=list)
    result: str = ""
    result_seq: int = 0
    effect: ToolEffect | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A part of a log; `next` is the seq of its last event where more follow."""

    rows: Sequence[R]
    next: int | None


def timeline(log: RunLog, *, after: int, last_seq: int) -> Page[Entry]:
    """Return entries behind seq `after` of a log that ends at `last_seq`, those of tool calls with their effects."""
    seq, frames = _read(log, after)
    entries: dict[tuple[str, object], Entry] = {}
    for frame in frames:
        event = from_json(frame)
        key = _key(event) or (EVENT, seq)
        if key not in entries and len(entries) == MAX_ENTRIES:
            break
        seq += 1
        _add(entries.setdefault(key, _entry(event, seq)), event, frame, seq)
    rows = list(entries.values())
    _join_effects(rows, log)
    return Page(rows, seq if seq < last_seq else None)


def events(log: RunLog, *, after: int, last_seq: int) -> Page[tuple[int, bytes]]:
    """Return events behind seq `after` of a log that ends at `last_seq`, each with its seq."""
    before, frames = _read(log, after)
    rows = list(enumerate(frames[:MAX_EVENTS], before + 1))
    last = before + len(rows)
    return Page(rows, last if last < last_seq else None)


def whole_text(frames: Iterable[bytes]) -> Iterator[str]:
    """Yield the whole text of the message, reasoning or arguments that begin with the first frame, or of its event."""
    key = None
    for frame in frames:
        event = from_json(frame)
        if key is None:
            key = _key(event)
            if key is None or event["type"] == EventType.TOOL_CALL_RESULT:
                yield _text(event, frame)
                return
        if _key(event) == key and event["type"] in _PIECES:
            yield event["delta"]
        if _key(event) == key and event["type"] in _ENDS:
            return


def _read(log: RunLog, after: int) -> tuple[int, list[bytes]]:
    """Return frames behind seq `after`, or else the first that are kept, and the seq before them."""
    try:
        return after, log.read(after=after, max_bytes=READ_BYTES)
    except LogPruned as pruned:
        kept_from = pruned.first_seq - 1
        return kept_from, log.read(after=kept_from, max_bytes=READ_BYTES)


def _key(event: JsonObject) -> tuple[str, str] | None:
    """Return what events share that belong together."""
    kind = event["type"]
    if kind.startswith("TEXT_MESSAGE_"):
        return MESSAGE, event["messageId"]
    if kind.startswith("REASONING_") and "messageId" in event:
        return REASONING, event["messageId"]
    if kind.startswith("TOOL_CALL_"):
        return CALL, event["toolCallId"]
    return None


def _entry(event: JsonObject, seq: int) -> Entry:
    match event["type"]:
        case EventType.TEXT_MESSAGE_START:
            role = event.get("role", Role.ASSISTANT)
            title = gettext("Message of the %(role)s") % {"role": dict(Role.choices).get(role, role)}
        case str(kind) if kind.startswith("TEXT_MESSAGE_"):
            title = gettext("Message, continued")
        case EventType.REASONING_ENCRYPTED_VALUE:
            title = gettext("Encrypted reasoning")
        case str(kind) if kind.startswith("REASONING_"):
            title = gettext("Reasoning")
        case EventType.TOOL_CALL_START:
            title = event["toolCallName"]
        case EventType.TOOL_CALL_RESULT:
            title = gettext("Result of tool call %(call)s") % {"call": event["toolCallId"]}
        case str(kind) if kind.startswith("TOOL_CALL_"):
            title = gettext("Tool call %(call)s, continued") % {"call": event["toolCallId"]}
        case EventType.RUN_STARTED:
            title = gettext("Accepted")
        case EventType.RUN_FINISHED:
            title = _end(event)
        case EventType.RUN_ERROR:
            title = gettext("Failed: %(code)s") % {"code": event.get("code", "")}
        case EventType.MESSAGES_SNAPSHOT if begins_attempt(event):
            number = event["metadata"]["django_ag_ui"]["attempt"]
            title = gettext("Attempt %(number)s begins") % {"number": number}
        case kind:
            title = kind
    kind, call_id = _key(event) or (EVENT, "")
    return Entry(seq, kind, title, call_id if kind == CALL else "", _moment(event))


def _end(event: JsonObject) -> str:
    """Return how a run ended that has not failed."""
    match event.get("outcome"):
        case {"type": "cancelled"}:
            return gettext("Cancelled")
        case {"type": "interrupt"}:
            return gettext("Interrupted")
    return gettext("Finished")


def _moment(event: JsonObject) -> datetime | None:
    """Return when an event was made; None where a tool has written something else there."""
    try:
        return datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _add(entry: Entry, event: JsonObject, frame: bytes, seq: int) -> None:
    if event["type"] == EventType.TOOL_CALL_RESULT:
        entry.result, entry.result_seq = _text(event, frame), seq
    elif event["type"] in _PIECES:
        entry.pieces.append(event["delta"])
    elif entry.kind == EVENT:
        entry.pieces.append(_text(event, frame))


def _text(event: JsonObject, frame: bytes) -> str:
    match event:
        case {"type": EventType.TOOL_CALL_RESULT, "content": str(content)}:
            return content
        case {"type": EventType.RUN_ERROR, "message": str(message)}:
            return message
        case {"type": EventType.RUN_STARTED, "input": {"messages": [{"content": str(content)}]}}:
            return content
        case {"type": EventType.REASONING_ENCRYPTED_VALUE}:
            return ""
    return frame.decode()


def _join_effects(entries: Iterable[Entry], log: RunLog) -> None:
    """Give the entries of tool calls their rows of the ledger, in one query."""
    calls = {
        digest(id_): entry for entry in entries if entry.call_id for id_ in (model_id(entry.call_id), entry.call_id)
    }
    effects = ToolEffect.objects.using(log.using).filter(run=log.run, call_digest__in=calls)
    for effect in effects.only(*_SHOWN_OF_EFFECT):
        calls[effect.call_digest].effect = effect
