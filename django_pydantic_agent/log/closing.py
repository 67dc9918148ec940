"""What a stream has opened, and the events that close it."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    EventType,
    ReasoningEndEvent,
    ReasoningMessageEndEvent,
    StepFinishedEvent,
    SubagentErrorEvent,
    TextMessageEndEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
)

INTERRUPTED_RESULT = "The tool call was interrupted before it returned a result."

# Starting event -> (kind, attribute that names the item).
_OPENS = {
    EventType.TEXT_MESSAGE_START: ("text", "message_id"),
    EventType.REASONING_START: ("reasoning", "message_id"),
    EventType.REASONING_MESSAGE_START: ("reasoning message", "message_id"),
    EventType.TOOL_CALL_START: ("tool call", "tool_call_id"),
    EventType.STEP_STARTED: ("step", "step_name"),
    EventType.SUBAGENT_STARTED: ("subagent", "subagent_run_id"),
}
_CLOSES = {
    EventType.TEXT_MESSAGE_END: ("text", "message_id"),
    EventType.REASONING_END: ("reasoning", "message_id"),
    EventType.REASONING_MESSAGE_END: ("reasoning message", "message_id"),
    EventType.TOOL_CALL_END: ("tool call", "tool_call_id"),
    EventType.STEP_FINISHED: ("step", "step_name"),
    EventType.SUBAGENT_FINISHED: ("subagent", "subagent_run_id"),
    EventType.SUBAGENT_ERROR: ("subagent", "subagent_run_id"),
}
_ENDINGS: dict[str, Callable[[str], BaseEvent]] = {
    "text": lambda name: TextMessageEndEvent(message_id=name),
    "reasoning": lambda name: ReasoningEndEvent(message_id=name),
    "reasoning message": lambda name: ReasoningMessageEndEvent(message_id=name),
    "tool call": lambda name: ToolCallEndEvent(tool_call_id=name),
    "step": lambda name: StepFinishedEvent(step_name=name),
    "subagent": lambda name: SubagentErrorEvent(subagent_run_id=name, message="The run ended."),
}


class OpenItems:
    """Keeps account of the items a run's events have opened and of tool calls without a result."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, Any], None] = {}
        self._unanswered: dict[str, None] = {}

    def observe(self, event: BaseEvent) -> None:
        """Take note of an event that is about to be logged."""
        if (opens := _OPENS.get(event.type)) is not None:
            kind, attribute = opens
            name = getattr(event, attribute)
            self._open[kind, name] = None
            if kind == "tool call":
                self._unanswered[name] = None
        elif (closes := _CLOSES.get(event.type)) is not None:
            kind, attribute = closes
            self._open.pop((kind, getattr(event, attribute)), None)
        elif event.type is EventType.TOOL_CALL_RESULT:
            self._unanswered.pop(event.tool_call_id, None)

    def closing(self, *, waiting: frozenset[str] = frozenset()) -> Iterator[BaseEvent]:
        """Yield what closes everything, last opened first; then a result for each call that is not in `waiting`."""
        for kind, name in reversed(self._open):
            yield _ENDINGS[kind](name)
        for tool_call_id in self._unanswered:
            if tool_call_id not in waiting:
                yield ToolCallResultEvent(
                    message_id=str(uuid4()), tool_call_id=tool_call_id, content=INTERRUPTED_RESULT, role="tool"
                )
