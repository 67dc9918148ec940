"""Chunk events, written out as the starts, contents and ends that they stand for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ag_ui.core import (
    BaseEvent,
    EventType,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from django_pydantic_agent.log.frames import RUN_LEVEL

Chunk: TypeAlias = TextMessageChunkEvent | ToolCallChunkEvent | ReasoningMessageChunkEvent


@dataclass(frozen=True, slots=True)
class _Shorthand:
    """What a type of chunk stands for. `key` names the item; `opening` are the fields that only its start carries."""

    key: str
    opening: tuple[str, ...]
    start: Callable[..., BaseEvent]
    content: Callable[..., BaseEvent]
    end: Callable[..., BaseEvent]


_SHORTHANDS = {
    EventType.TEXT_MESSAGE_CHUNK: _Shorthand(
        "message_id", ("role", "name"), TextMessageStartEvent, TextMessageContentEvent, TextMessageEndEvent
    ),
    EventType.TOOL_CALL_CHUNK: _Shorthand(
        "tool_call_id", ("tool_call_name", "parent_message_id"), ToolCallStartEvent, ToolCallArgsEvent, ToolCallEndEvent
    ),
    EventType.REASONING_MESSAGE_CHUNK: _Shorthand(
        "message_id", (), ReasoningMessageStartEvent, ReasoningMessageContentEvent, ReasoningMessageEndEvent
    ),
}
# These say nothing about what chunks build.
_ASIDE = frozenset(
    {
        EventType.RAW,
        EventType.ACTIVITY_SNAPSHOT,
        EventType.ACTIVITY_DELTA,
        EventType.REASONING_ENCRYPTED_VALUE,
        EventType.SUBAGENT_STARTED,
    }
)
# These speak of the whole conversation, and so end what every lane builds.
_OF_ALL_LANES = RUN_LEVEL | {EventType.MESSAGES_SNAPSHOT}


@dataclass(frozen=True, slots=True)
class _Item:
    shorthand: _Shorthand
    name: str


class Chunks:
    """Writes out a run's chunks, as AG-UI clients do.

    A lane is a subagent, or None for the agent itself. Each builds at most one item out of chunks at a time, because a
    chunk without an id goes on with the item of its lane; any other event of the lane ends it.
    """

    def __init__(self) -> None:
        self._lanes: dict[str | None, _Item] = {}

    def expand(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Return what is to be logged for an event: the event itself unless chunks are involved.

        A chunk that neither starts an item nor goes on with one is left out.
        """
        if isinstance(event, Chunk):
            return list(self._write_out(event, _SHORTHANDS[event.type]))
        if not self._lanes or event.type in _ASIDE:
            return (event,)
        lanes = list(self._lanes) if event.type in _OF_ALL_LANES else [_lane_of(event)]
        return [*self._end(lanes), event]

    def _write_out(self, chunk: Chunk, shorthand: _Shorthand) -> Iterator[BaseEvent]:
        name: str | None = getattr(chunk, shorthand.key)
        lane = self._find_lane(chunk, shorthand, name)
        item = self._lanes.get(lane)
        if item is None or item.shorthand is not shorthand or name not in (None, item.name):
            if name is None or (isinstance(chunk, ToolCallChunkEvent) and chunk.tool_call_name is None):
                return
            yield from self._end([lane])
            starts, item = True, _Item(shorthand, name)
            self._lanes[lane] = item
        else:
            starts = False
        shared: dict[str, Any] = {
            shorthand.key: item.name,
            "subagent_run_id": lane,
            "timestamp": chunk.timestamp,
            "metadata": chunk.metadata,
        }
        if starts:
            yield shorthand.start(**shared, **{field: getattr(chunk, field) for field in shorthand.opening})
        if chunk.delta is not None or chunk.raw_event is not None or (chunk.metadata is not None and not starts):
            yield shorthand.content(**shared, delta=chunk.delta or "", raw_event=chunk.raw_event)

    def _find_lane(self, chunk: Chunk, shorthand: _Shorthand, name: str | None) -> str | None:
        lane = _lane_of(chunk)
        if name is not None:
            holders = (holder for holder, item in self._lanes.items() if item == _Item(shorthand, name))
            return next(holders, lane)
        if lane is not None or ((own := self._lanes.get(None)) and own.shorthand is shorthand):
            return lane
        candidates = [holder for holder, item in self._lanes.items() if item.shorthand is shorthand]
        return candidates[0] if len(candidates) == 1 else None

    def _end(self, lanes: Iterable[str | None]) -> Iterator[BaseEvent]:
        for lane in lanes:
            if (item := self._lanes.pop(lane, None)) is not None:
                yield item.shorthand.end(**{item.shorthand.key: item.name, "subagent_run_id": lane})


def _lane_of(event: BaseEvent) -> str | None:
    lane: str | None = getattr(event, "subagent_run_id", None)
    return lane
