"""What a stream has opened, and the events that close it or open it again."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    Event,
    EventType,
    ReasoningEndEvent,
    ReasoningMessageEndEvent,
    StepFinishedEvent,
    SubagentErrorEvent,
    TextMessageEndEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
)
from pydantic import TypeAdapter

from django_pydantic_agent.log.frames import RUN_LEVEL, JsonObject

INTERRUPTED_RESULT = "The tool call was interrupted before it returned a result."

# Kind, name and, because each subagent names its steps itself, the owner of a step.
_Item: TypeAlias = tuple[str, str, str | None]

# Starting event -> (kind, field that names the item).
_OPENS: dict[str, tuple[str, str]] = {
    EventType.TEXT_MESSAGE_START: ("text", "messageId"),
    EventType.REASONING_START: ("reasoning", "messageId"),
    EventType.REASONING_MESSAGE_START: ("reasoning message", "messageId"),
    EventType.TOOL_CALL_START: ("tool call", "toolCallId"),
    EventType.STEP_STARTED: ("step", "stepName"),
    EventType.SUBAGENT_STARTED: ("subagent", "subagentRunId"),
}
_CLOSES: dict[str, tuple[str, str]] = {
    EventType.TEXT_MESSAGE_END: ("text", "messageId"),
    EventType.REASONING_END: ("reasoning", "messageId"),
    EventType.REASONING_MESSAGE_END: ("reasoning message", "messageId"),
    EventType.TOOL_CALL_END: ("tool call", "toolCallId"),
    EventType.STEP_FINISHED: ("step", "stepName"),
    EventType.SUBAGENT_FINISHED: ("subagent", "subagentRunId"),
    EventType.SUBAGENT_ERROR: ("subagent", "subagentRunId"),
}
BRACKETS = frozenset({*_OPENS, *_CLOSES, EventType.TOOL_CALL_RESULT})
"""The events of which `OpenItems` keeps account."""

_ENDINGS: dict[str, Callable[[str, str | None], BaseEvent]] = {
    "text": lambda name, owner: TextMessageEndEvent(message_id=name, subagent_run_id=owner),
    "reasoning": lambda name, owner: ReasoningEndEvent(message_id=name, subagent_run_id=owner),
    "reasoning message": lambda name, owner: ReasoningMessageEndEvent(message_id=name, subagent_run_id=owner),
    "tool call": lambda name, owner: ToolCallEndEvent(tool_call_id=name, subagent_run_id=owner),
    "step": lambda name, owner: StepFinishedEvent(step_name=name, subagent_run_id=owner),
    "subagent": lambda name, _: SubagentErrorEvent(subagent_run_id=name, message="The run ended."),
}
_EVENT: TypeAdapter[BaseEvent] = TypeAdapter(Event)
# What is the event's own, and not the item's.
_OWN = frozenset({"timestamp", "rawEvent", "metadata"})


class OpenItems:
    """Keeps account of the items a run's events have opened and of tool calls without a result."""

    def __init__(self) -> None:
        self._open: dict[_Item, JsonObject] = {}
        self._unanswered: dict[str, str | None] = {}
        self._subagents: list[JsonObject] = []
        self.calls: dict[str, None] = {}
        """The ids of all tool calls that ever began, the first one first."""

    def observe(self, event: JsonObject) -> None:
        """Take note of an event, in the form it has on the wire."""
        event_type = event["type"]
        if (opens := _OPENS.get(event_type)) is not None:
            item = _item(event, *opens)
            self._open[item] = event
            if item[0] == "tool call":
                self._unanswered[item[1]] = event.get("subagentRunId")
                self.calls[item[1]] = None
            elif item[0] == "subagent":
                self._subagents.append(event)
        elif (closes := _CLOSES.get(event_type)) is not None:
            item = _item(event, *closes)
            self._open.pop(item, None)
            if item[0] == "subagent":
                self._subagents.append(event)
        elif event_type == EventType.TOOL_CALL_RESULT:
            self._unanswered.pop(event["toolCallId"], None)
        elif event_type in RUN_LEVEL:
            self._open.clear()
            self._unanswered.clear()
            self._subagents.clear()

    @property
    def unanswered(self) -> list[str]:
        """The ids of the tool calls without a result."""
        return list(self._unanswered)

    def expect(self, tool_call_ids: Iterable[str]) -> None:
        """Take note of calls of an earlier run that this one brings the results of."""
        self._unanswered.update(dict.fromkeys(tool_call_ids))

    def closing(self, *, waiting: frozenset[str] = frozenset()) -> Iterator[BaseEvent]:
        """Yield what closes everything, last opened first; then a result for each call that is not in `waiting`."""
        for (kind, name, _), event in reversed(self._open.items()):
            yield _ENDINGS[kind](name, event.get("subagentRunId"))
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
        """Yield one start for each open item, first opened first, for a client that has the messages already.

        Before them come all subagents of the run, with their ends: messages belong to those that have ended, too, and
        later ones may be their children.
        """
        for event in self._subagents:
            yield _again(event)
        for (kind, _, _), event in self._open.items():
            if kind != "subagent":
                yield _again(event)


def _item(event: JsonObject, kind: str, key: str) -> _Item:
    return kind, event[key], event.get("subagentRunId") if kind == "step" else None


def _again(event: JsonObject) -> BaseEvent:
    return _EVENT.validate_python({key: value for key, value in event.items() if key not in _OWN})
