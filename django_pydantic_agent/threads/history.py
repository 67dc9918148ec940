"""What the model is given of a thread's past: the engine's own records, and what was said after the last of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ag_ui.core import AssistantMessage, EventType, FunctionCall, Message, ToolMessage
from ag_ui.core import ToolCall as AGUIToolCall
from pydantic import TypeAdapter
from pydantic_ai import ToolApproved, ToolDenied
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    repair_messages,
)
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_core import from_json

from django_pydantic_agent.exceptions import NotContinuable
from django_pydantic_agent.log.adapter import calls_on_wire
from django_pydantic_agent.log.frames import begins_attempt
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.policy.approvals import approval
from django_pydantic_agent.runs.states import CUT, RunStatus
from django_pydantic_agent.stores.approvals import StoredInterrupt
from django_pydantic_agent.stores.base import RunHistory, RunStore
from django_pydantic_agent.stores.conversations import ConversationStore, TurnGround

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """A tool call that a run has asked about, its id on the wire, and what was decided on it."""

    call: ToolCallPart
    wire_id: str
    decision: ToolApproved | ToolDenied


def agui_messages(messages: "Sequence[JsonObject]") -> list[Message]:
    """Return stored AG-UI messages as objects."""
    return _MESSAGES.validate_python(list(messages))


def past(
    history: RunHistory,
    store: RunStore,
    conversation: ConversationStore,
    ground: TurnGround,
    results: Sequence[ToolMessage] = (),
) -> list[ModelMessage]:
    """Return what comes before the question of a run's turn, ready for a new request.

    `results` are those of frontend tools that the turn before waits for.
    """
    first, previous = ground.first_of_turn, ground.previous
    if first is not None and store.boundary_seq(first):
        # An answer that came with a new question has begun on open calls.
        return repair_messages(history.begin(first, "start"))
    if ground.kept is not None:
        return repair_messages([*history.begin(ground.previous_first, "start"), *_loaded(ground.kept)])
    if previous is None:
        return history.begin(None)
    if not store.boundary_seq(previous):
        # It ended before the model was asked anything: its question goes on from what it was to build on.
        earlier = conversation.ground(run=previous)
        return [*past(history, store, conversation, earlier), *_loaded(earlier.question)]
    messages = history.begin(previous)
    if said := said_after_boundary(store, previous):
        messages = [*messages, ModelResponse(parts=[TextPart(said)])]
    return repair_messages([*messages, *_answers(messages, results)])


def unfinished(history: RunHistory, run: int, results: Sequence[ToolMessage] = ()) -> list[ModelMessage]:
    """Return the history of a run that was cut or waits for `results`, up to where the model has to answer."""
    messages = history.begin(run)
    while messages and isinstance(messages[-1], ModelResponse) and not _calls(messages[-1]):
        messages = messages[:-1]
    return repair_messages([*messages, *_answers(messages, results)])


def asked(history: RunHistory, run: int, results: Sequence[ToolMessage]) -> list[ModelMessage]:
    """Return the history of the run that asked, with the results of the frontend tools that it waited for too."""
    messages = history.begin(run)
    return [*messages, *_answers(messages, results)]


def decided_calls(messages: Sequence[ModelMessage], answers: Sequence[StoredInterrupt]) -> list[DecidedCall]:
    """Return the calls in a history that answers decide on."""
    calls = calls_on_wire(messages, [answer.tool_call_id for answer in answers])
    if any(answer.tool_call_id not in calls for answer in answers):
        raise NotContinuable
    return [DecidedCall(calls[answer.tool_call_id], answer.tool_call_id, approval(answer)) for answer in answers]


def said_after_boundary(store: RunStore, run: int) -> str:
    """Return the text that the log of a run that was cut holds behind its last boundary."""
    _, status = store.progress([run]).get(run, (0, RunStatus.FINISHED))
    if status not in CUT:
        return ""
    said: list[str] = []
    for event in map(from_json, frames_after(store, run, after=store.boundary_seq(run))):
        if event["type"] == EventType.TEXT_MESSAGE_CONTENT:
            said.append(event["delta"])
        elif event["type"] == EventType.MESSAGES_SNAPSHOT and begins_attempt(event):
            said.clear()
    return "".join(said)


def _answers(messages: Sequence[ModelMessage], results: Sequence[ToolMessage]) -> list[ModelMessage]:
    """Return what the client's results for the calls in `messages` are to the model, under the model's own ids."""
    calls = calls_on_wire(messages, [result.tool_call_id for result in results]) if results else {}
    parts = [
        ToolReturnPart(
            tool_name=part.tool_name, content=part.content, tool_call_id=calls[result.tool_call_id].tool_call_id
        )
        for result in results
        if result.tool_call_id in calls
        for part in returned(result, calls[result.tool_call_id].tool_name)
    ]
    return [ModelRequest(parts=parts)] if parts else []


def returned(result: ToolMessage, tool_name: str) -> list[ToolReturnPart]:
    """Return a result in AG-UI form as pydantic-ai reads it, which it does behind a call only."""
    call = AGUIToolCall(id=result.tool_call_id, function=FunctionCall(name=tool_name, arguments="{}"))
    loaded = AGUIAdapter.load_messages([AssistantMessage(id="call", tool_calls=[call]), result])
    return [part for message in loaded for part in message.parts if isinstance(part, ToolReturnPart)]


def _loaded(messages: "Sequence[JsonObject]") -> list[ModelMessage]:
    return AGUIAdapter.load_messages(agui_messages(messages))


def _calls(response: ModelResponse) -> bool:
    return any(isinstance(part, ToolCallPart) for part in response.parts)
