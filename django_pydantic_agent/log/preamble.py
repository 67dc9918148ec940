"""What a viewer is told first that joins a run behind an event: a self-contained legal stream of a few events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import EventType
from pydantic_core import from_json, to_json

from django_pydantic_agent.log.closing import BRACKETS
from django_pydantic_agent.log.frames import JsonObject, encode, frame_starts, is_terminal
from django_pydantic_agent.log.projection import Projection

RUN_STARTED = frame_starts(EventType.RUN_STARTED)
STATE_SNAPSHOT = frame_starts(EventType.STATE_SNAPSHOT)
MESSAGES_SNAPSHOT = frame_starts(EventType.MESSAGES_SNAPSHOT)
_STATE = frame_starts(EventType.STATE_SNAPSHOT, EventType.STATE_DELTA)
_BRACKETS = frame_starts(*BRACKETS)


@dataclass(frozen=True, slots=True)
class Preamble:
    """Encoded events that stand for a run's log up to `seq`, which is what the last of them represents."""

    frames: list[bytes]
    seq: int


class LogFold:
    """Folds the frames of a run's log, from the first on, into the preamble of a viewer that joins behind them.

    `messages` and `state` are those before the run, or with its events up to `applied_seq` and `state_seq`.
    """

    def __init__(self, messages: Sequence[JsonObject], *, state: Any, applied_seq: int = 0, state_seq: int = 0) -> None:
        self.seq = 0
        self.terminal: bytes | None = None
        self._started = b""
        self._projection = Projection(messages, state=state)
        self._applied_seq = applied_seq
        self._state_seq = state_seq

    def take(self, frame: bytes) -> None:
        """Take in the next frame."""
        self.seq += 1
        if self.seq == 1:
            self._started = frame
        elif is_terminal(frame):
            self.terminal = frame
        applied_seq = self._state_seq if frame.startswith(_STATE) else self._applied_seq
        if self.seq > applied_seq:
            self._projection.apply_frame(frame)
        elif frame.startswith(_BRACKETS):
            self._projection.items.observe(from_json(frame))

    def preamble(self) -> Preamble:
        """Return what stands for the frames so far, of which there is one at least."""
        opening = opening_frames(
            self._started, state=state_frame(self._projection.state), messages=self._projection.messages
        )
        if self.terminal is not None:
            return Preamble([*opening, self.terminal], self.seq)
        return Preamble([*opening, *map(encode, self._projection.items.reopening())], self.seq)


def state_frame(state: Any) -> bytes:
    """Return the snapshot of a state that has the form it has on the wire."""
    return to_json({"type": EventType.STATE_SNAPSHOT, "snapshot": state})


def opening_frames(started: bytes, *, state: bytes, messages: Sequence[JsonObject]) -> list[bytes]:
    """Return the first frame of a run, the snapshot of its state, and what brings a client to `messages`."""
    return [started, state, *_messages_frames(started, messages)]


def messages_told(frames: Sequence[bytes]) -> list[JsonObject] | None:
    """Return the messages that a preamble leaves a client with, None where it says nothing of them."""
    for frame in reversed(frames):
        if frame.startswith(MESSAGES_SNAPSHOT):
            messages: list[JsonObject] = from_json(frame)["messages"]
            return messages
    return None


def _messages_frames(started: bytes, messages: Sequence[JsonObject]) -> Iterator[bytes]:
    """Yield the snapshot of the messages, and before it that of those before the ones that the run has brought.

    A client has the brought ones by then, and leaves what it has in front of what it does not know.
    """
    brought = {message["id"] for message in from_json(started).get("input", {}).get("messages", ())}
    place = next((place for place, message in enumerate(messages) if message["id"] in brought), 0)
    if place:
        yield _messages_frame([*messages[:place], *_stand_ins(messages[:place], messages[place:])])
    yield _messages_frame(messages)


def _stand_ins(before: Sequence[JsonObject], behind: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield what has a client drop the reasoning and activities behind: it keeps them unless it is given some."""
    for role in ("reasoning", "activity"):
        if not any(message["role"] == role for message in before):
            for message in behind:
                if message["role"] == role:
                    yield {**message, "id": f"{message['id']}~"}
                    break


def _messages_frame(messages: Sequence[JsonObject]) -> bytes:
    return to_json({"type": EventType.MESSAGES_SNAPSHOT, "messages": messages})
