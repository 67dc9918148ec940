"""pydantic-ai's AG-UI adapter, with the start and the end of a run left to the engine."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    ReasoningEncryptedValueEvent,
    RunFinishedInterruptOutcome,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, ReinjectSystemPrompt
from pydantic_ai.messages import ModelMessage, ModelResponse, SystemPromptPart, ToolCallPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.ui import NativeEvent
from pydantic_ai.ui.ag_ui import AGUIAdapter, AGUIEventStream

from django_pydantic_agent.log.call_ids import model_id
from django_pydantic_agent.stores.approvals import AskedCall


@dataclass
class RunEventStream(AGUIEventStream[Any, Any]):
    """The events between RUN_STARTED and the terminal event; how the run ended is kept, not sent."""

    failure: Exception | None = field(default=None, init=False)

    @property
    def result(self) -> AgentRunResult[Any] | None:
        """The result of a run that came to its end."""
        return self._result

    def interrupts(
        self, call_ids: "ToolCallIds", *, expires_at: str | None
    ) -> tuple[RunFinishedInterruptOutcome, dict[str, AskedCall]] | None:
        """Return what the run asks approval for, under ids minted here, and the calls of these; None where nothing."""
        outcome = self._build_outcome()
        if not isinstance(outcome, RunFinishedInterruptOutcome):
            return None
        asked = {}
        for interrupt, call in zip(outcome.interrupts, self._requests.approvals, strict=True):
            interrupt.id = str(uuid4())
            interrupt.tool_call_id = call_ids.on_wire(call.tool_call_id)
            interrupt.expires_at = expires_at
            asked[interrupt.id] = written = asked_call(call)
            interrupt.message = f"Approve {written.tool_name}({written.arguments})?"
        return outcome, asked

    def pending_calls(self, call_ids: "ToolCallIds") -> list[str]:
        """Return the ids of the frontend tool calls that the client is to answer."""
        return [call_ids.on_wire(call.tool_call_id) for call in self._requests.calls]

    @property
    def _requests(self) -> DeferredToolRequests:
        output = self._result.output if self._result else None
        return output if isinstance(output, DeferredToolRequests) else DeferredToolRequests()

    async def before_stream(self) -> AsyncIterator[BaseEvent]:
        return
        yield

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        return
        yield

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        self.failure = error
        return
        yield


@dataclass
class RunAdapter(AGUIAdapter[Any, Any]):
    """An adapter for one run, whose event stream can be asked how the run ended.

    The server has the system prompt, as it has by default. The adapter itself is told otherwise, because it would look
    for system prompts in the whole history several times before each model request, also where nobody has any.
    """

    manage_system_prompt: Literal["server", "client"] = "client"
    stream: RunEventStream = field(init=False)

    def sanitize_messages(
        self, messages: Sequence[ModelMessage], *, deferred_tool_results: DeferredToolResults | None = None
    ) -> list[ModelMessage]:
        strict = replace(self, manage_system_prompt="server")
        return super(RunAdapter, strict).sanitize_messages(messages, deferred_tool_results=deferred_tool_results)

    def run_stream_native(
        self,
        *,
        message_history: Sequence[ModelMessage] | None = None,
        capabilities: Sequence[AbstractCapability[Any]] | None = None,
        **options: Any,
    ) -> AsyncIterator[NativeEvent]:
        if _may_have_system_prompt(self.agent) or _holds_system_prompt(message_history or ()):
            capabilities = [ReinjectSystemPrompt(replace_existing=True, id=None), *(capabilities or ())]
        return super().run_stream_native(message_history=message_history, capabilities=capabilities, **options)

    def build_event_stream(self) -> RunEventStream:
        self.stream = RunEventStream(
            self.run_input,
            ag_ui_version=self.ag_ui_version,
            manage_system_prompt="server",
            preserve_file_data=self.preserve_file_data,
        )
        return self.stream


def _may_have_system_prompt(agent: AbstractAgent[Any, Any]) -> bool:
    return bool(getattr(agent, "_system_prompts", True) or getattr(agent, "_system_prompt_functions", True))


def _holds_system_prompt(history: Iterable[ModelMessage]) -> bool:
    return any(isinstance(part, SystemPromptPart) for message in history for part in message.parts)


def asked_call(call: ToolCallPart) -> AskedCall:
    """Return a call with its arguments as the model wrote them; pydantic-ai's own text is made anew, and rounds."""
    return AskedCall(call.tool_name, call.args if isinstance(call.args, str) else call.args_as_json_str())


def calls_on_wire(history: Iterable[ModelMessage], wire_ids: Iterable[str]) -> dict[str, ToolCallPart]:
    """Return the tool calls of a history by those of their ids on the wire that are among `wire_ids`.

    Where attempts at a run have begun calls that the history does not hold, a call has a higher number on the wire than
    its place says; it is the last one then that the model named so.
    """
    ids = ToolCallIds(())
    calls = list(_calls(history))
    exact = {ids.take(part.tool_call_id): part for part in calls}
    last = {part.tool_call_id: part for part in calls}
    found = {wire: exact.get(wire) or last.get(model_id(wire)) for wire in wire_ids}
    return {wire: part for wire, part in found.items() if part is not None}


class ToolCallIds:
    """Gives every tool call of a conversation an id of its own on the wire.

    Some models repeat ids, and a client would append the second call's arguments to the first. The first call keeps its
    id, later ones become `<id>~<n>`. The model's own history is left as it is. `begun` are ids that the wire has had
    besides those in the history, `on_wire` those of the calls whose results are yet to come, by the model's ids.
    """

    def __init__(
        self,
        history: Iterable[ModelMessage],
        *,
        begun: Iterable[str] = (),
        on_wire: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._seen = Counter(part.tool_call_id for part in _calls(history))
        self._seen.update(set(begun) - self._seen.keys())
        self._wire = dict(on_wire)

    def on_wire(self, tool_call_id: str) -> str:
        """Return the wire id of the latest call that the model named so."""
        return self._wire.get(tool_call_id, tool_call_id)

    def apply(self, event: BaseEvent) -> None:
        """Put the wire id into an event that names a tool call."""
        if isinstance(event, ToolCallStartEvent):
            event.tool_call_id = self.take(event.tool_call_id)
        elif not self._wire:
            return
        elif isinstance(event, ToolCallArgsEvent | ToolCallEndEvent | ToolCallResultEvent):
            event.tool_call_id = self.on_wire(event.tool_call_id)
        elif isinstance(event, ReasoningEncryptedValueEvent) and event.subtype == "tool-call":
            event.entity_id = self.on_wire(event.entity_id)

    def take(self, tool_call_id: str) -> str:
        """Return the wire id of a call that the model begins."""
        self._seen[tool_call_id] += 1
        occurrence = self._seen[tool_call_id]
        if occurrence == 1:
            self._wire.pop(tool_call_id, None)
            return tool_call_id
        while (wire := f"{tool_call_id}~{occurrence}") in self._seen:
            occurrence += 1
        self._seen[wire] += 1
        self._wire[tool_call_id] = wire
        return wire


def _calls(history: Iterable[ModelMessage]) -> Iterator[ToolCallPart]:
    for message in history:
        if isinstance(message, ModelResponse):
            yield from (part for part in message.parts if isinstance(part, ToolCallPart))
