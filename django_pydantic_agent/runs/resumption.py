"""Where a run stands that another process has left, and what its viewers are told before it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ag_ui.core import EventType, MessagesSnapshotEvent, StateSnapshotEvent
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, ToolReturnPart

from django_pydantic_agent.log.frames import attempt_metadata, encode
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.runs.orphans import folded
from django_pydantic_agent.stores.base import RunHistory, RunStore
from django_pydantic_agent.stores.conversations import ConversationStore
from django_pydantic_agent.stores.leases import Orphan
from django_pydantic_agent.threads.history import agui_messages
from django_pydantic_agent.threads.lineage import messages_before

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

_RESULTS = (ToolReturnPart, RetryPromptPart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What the next attempt at a run begins with.

    `history` is the model's at the last boundary, empty where the run had reached none. Where it ends with calls, the
    results that some of them have already are in `returned`, by the model's ids. `frames` go into the log first: they
    end what is open, but for the calls that the model waits for, and show messages and state without what the model had
    begun to say. `projection` is what the log then adds up to.
    """

    history: list[ModelMessage]
    returned: Mapping[str, Any]
    frames: list[bytes]
    projection: Projection

    @property
    def response(self) -> ModelResponse | None:
        """The model's response that the run was acting on, None where the model is to be asked."""
        last = self.history[-1] if self.history else None
        return last if isinstance(last, ModelResponse) and last.state != "suspended" else None

    @property
    def is_answered(self) -> bool:
        """Whether the model had given its answer, so that only the end of the run is missing."""
        return self.response is not None and not self.response.tool_calls


def resumption(
    orphan: Orphan, store: RunStore, conversation: ConversationStore | None, history: RunHistory
) -> Resumption:
    """Return where a run stands; reads its whole log."""
    run = orphan.run
    messages, returned = _up_to_open_calls(history.resume())
    projection = folded(orphan, store, conversation)
    acts = bool(messages) and isinstance(messages[-1], ModelResponse)
    kept = projection if acts else folded(orphan, store, conversation, until=max(store.boundary_seq(run.key), 1))
    waiting = frozenset(projection.items.unanswered) if acts else frozenset()
    closing = [encode(event) for event in projection.items.closing(waiting=waiting)]
    for frame in closing:
        projection.apply_frame(frame)
    own = kept.messages
    before = _messages_before(orphan, store, conversation, projection)
    shown = MessagesSnapshotEvent(messages=agui_messages([*before, *own]), metadata=attempt_metadata(run.attempt))
    state = encode(StateSnapshotEvent(snapshot={} if kept.state is None else kept.state))
    projection.apply_json({"type": EventType.MESSAGES_SNAPSHOT, "messages": own})
    projection.apply_frame(state)
    frames = [*closing, encode(shown), state]
    return Resumption(history=messages, returned=returned, frames=frames, projection=projection)


def _up_to_open_calls(messages: list[ModelMessage]) -> tuple[list[ModelMessage], dict[str, Any]]:
    """Return a history up to a last response of which calls lack a result, with the results of others; else all."""
    behind: list[Any] = []
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelResponse):
            break
        behind += message.parts
    else:
        return messages, {}
    returned = {part.tool_call_id: _result(part) for part in behind if isinstance(part, _RESULTS)}
    is_open = any(call.tool_call_id not in returned for call in message.tool_calls)
    if not is_open or len(returned) < len(behind):
        return messages, {}
    return messages[: place + 1], returned


def _result(part: ToolReturnPart | RetryPromptPart) -> Any:
    return part.content if isinstance(part, ToolReturnPart) else part.model_response()


def _messages_before(
    orphan: Orphan, store: RunStore, conversation: ConversationStore | None, own: Projection
) -> "list[JsonObject]":
    """Return the messages that a client shows in front of what the run itself has brought."""
    if conversation is None:
        return messages_before(store, orphan.run)
    known = set(own.message_ids)
    return [message for message in conversation.transcript(run=orphan.run.key) if message["id"] not in known]
