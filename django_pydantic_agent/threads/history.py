"""What the model is given of a thread's past: the engine's own records, and what was said after the last of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ag_ui.core import EventType, Message
from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, repair_messages
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_core import from_json

from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunHistory, RunStore
from django_pydantic_agent.stores.conversations import ConversationStore, TurnGround

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

CUT = frozenset({RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ORPHANED})

READ_BYTES = 1024 * 1024

_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def agui_messages(messages: "Sequence[JsonObject]") -> list[Message]:
    """Return stored AG-UI messages as objects."""
    return _MESSAGES.validate_python(list(messages))


def past(
    history: RunHistory, store: RunStore, conversation: ConversationStore, ground: TurnGround
) -> list[ModelMessage]:
    """Return what comes before the question of a run's turn, ready for a new request."""
    first, previous = ground.first_of_turn, ground.previous
    if first is not None and store.boundary_seq(first):
        return history.begin(first, "start")
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
    return repair_messages(messages)


def unfinished(history: RunHistory, run: int) -> list[ModelMessage]:
    """Return the history of a run that was cut, up to where the model has to answer."""
    messages = history.begin(run)
    while messages and isinstance(messages[-1], ModelResponse) and not _calls(messages[-1]):
        messages = messages[:-1]
    return repair_messages(messages)


def said_after_boundary(store: RunStore, run: int) -> str:
    """Return the text that the log of a run that was cut holds behind its last boundary."""
    last_seq, status = store.progress([run]).get(run, (0, RunStatus.FINISHED))
    if status not in CUT:
        return ""
    after, said = store.boundary_seq(run), []
    while after < last_seq and (frames := store.read_frames(run, after=after, max_bytes=READ_BYTES)):
        said += [event["delta"] for event in map(from_json, frames) if event["type"] == EventType.TEXT_MESSAGE_CONTENT]
        after += len(frames)
    return "".join(said)


def _loaded(messages: "Sequence[JsonObject]") -> list[ModelMessage]:
    return AGUIAdapter.load_messages(agui_messages(messages))


def _calls(response: ModelResponse) -> bool:
    return any(isinstance(part, ToolCallPart) for part in response.parts)
