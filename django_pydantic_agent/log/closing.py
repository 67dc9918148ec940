"""What a stream has opened, and the events that close it or open it again."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    EventType,
    ReasoningEndEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentStartedEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from django_pydantic_agent.log.frames import JsonObject

INTERRUPTED_RESULT = "The tool call was interrupted before it returned a result."


class _Kind(NamedTuple):
    """A kind of item. `key` is the field that names it, in its start and in its end."""

    name: str
    key: str
    start: type[BaseEvent]
    ending: Callable[[str, str | None], BaseEvent]


_TEXT = _Kind(
    "text",
    "messageId",
    TextMessageStartEvent,
    lambda name, owner: TextMessageEndEvent(message_id=name, subagent_run_id=owner),
)
_REASONING = _Kind(
    "reasoning",
    "messageId",
    ReasoningStartEvent,
    lambda name, owner: ReasoningEndEvent(message_id=name, subagent_run_id=owner),
)
_REASONING_MESSAGE = _Kind(
    "reasoning message",
    "messageId",
    ReasoningMessageStartEvent,
    lambda name, owner: ReasoningMessageEndEvent(message_id=name, subagent_run_id=owner),
)
_TOOL_CALL = _Kind(
    "tool call",
    "toolCallId",
    ToolCallStartEvent,
    lambda name, owner: ToolCallEndEvent(tool_call_id=name, subagent_run_id=owner),
)
_STEP = _Kind(
    "step",
    "stepName",
    StepStartedEvent,
    lambda name, owner: StepFinishedEvent(step_name=name, subagent_run_id=owner),
)
_SUBAGENT = _Kind(
    "subagent",
    "subagentRunId",
    SubagentStartedEvent,
    lambda name, _: SubagentErrorEvent(subagent_run_id=name, message="The run ended."),
)
_OPENS = {
    EventType.TEXT_MESSAGE_START: _TEXT,
    EventType.REASONING_START: _REASONING,
    EventType.REASONING_MESSAGE_START: _REASONING_MESSAGE,
    EventType.TOOL_CALL_START: _TOOL_CALL,
    EventType.STEP_STARTED: _STEP,
    EventType.SUBAGENT_STARTED: _SUBAGENT,
}
_CLOSES = {
    EventType.TEXT_MESSAGE_END: _TEXT,
    EventType.REASONING_END: _REASONING,
    EventType.REASONING_MESSAGE_END: _REASONING_MESSAGE,
    EventType.TOOL_CALL_END: _TOOL_CALL,
    EventType.STEP_FINISHED: _STEP,
    EventType.SUBAGENT_FINISHED: _SUBAGENT,
    EventType.SUBAGENT_ERROR: _SUBAGENT,
}
_BOUNDARIES = frozenset({EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.RUN_ERROR})
# Of the event that opened an item, not of the item.
_OF_THE_EVENT = frozenset({"timestamp", "rawEvent", "metadata"})


class OpenItems:
    """Keeps account of the items a run's events have opened and of tool calls without a result."""

    def __init__(self) -> None:
        self._open: dict[tuple[_Kind, str, str | None], JsonObject] = {}
        self._unanswered: dict[str, str | None] = {}

    def observe(self, event: JsonObject) -> None:
        """Take note of an event, in the form it has on the wire."""
        event_type = event["type"]
        if (opens := _OPENS.get(event_type)) is not None:
            self._open[_place(opens, event)] = event
            if opens is _TOOL_CALL:
                self._unanswered[event["toolCallId"]] = event.get("subagentRunId")
        elif (closes := _CLOSES.get(event_type)) is not None:
            self._open.pop(_place(closes, event), None)
        elif event_type == EventType.TOOL_CALL_RESULT:
            self._unanswered.pop(event["toolCallId"], None)
        elif event_type in _BOUNDARIES:
            self._open.clear()
            self._unanswered.clear()

    def closing(self, *, waiting: frozenset[str] = frozenset()) -> Iterator[BaseEvent]:
        """Yield what closes everything, last opened first; then a result for each call that is not in `waiting`."""
        for (kind, name, _), event in reversed(self._open.items()):
            yield kind.ending(name, event.get("subagentRunId"))
        for tool_call_id, owner in self._unanswered.items():
            if tool_call_id not in waiting:
                yield ToolCallResultEvent(
                    message_id=str(uuid4()),
                    tool_call_id=tool_call_id,
                    content=INTERRUPTED_RESULT,
                    role="tool",
                    subagent_run_id=owner,
                )

    def reopening(self) -> Iterator[BaseEvent]:
        """Yield one start for each open item, first opened first, for a client that has the messages already."""
        for (kind, _, _), event in self._open.items():
            fields: dict[str, Any] = {key: value for key, value in event.items() if key not in _OF_THE_EVENT}
            # To a client that joins now, a parent that has ended was never there.
            if (_SUBAGENT, fields.get("parentSubagentRunId"), None) not in self._open:
                fields.pop("parentSubagentRunId", None)
            yield kind.start.model_validate(fields)


def _place(kind: _Kind, event: JsonObject) -> tuple[_Kind, str, str | None]:
    """Return where an item stands in the account: steps of one name may be open once in each subagent."""
    return kind, event[kind.key], event.get("subagentRunId") if kind is _STEP else None
