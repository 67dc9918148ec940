"""Model messages as bytes: one line of JSON each, so that a history can be cut and continued at any byte."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from django_pydantic_agent.contrib.store.history import Chain
from django_pydantic_agent.contrib.store.rows import Row
from django_pydantic_agent.log.frames import safe_text, storable_value

SEPARATOR = b",\n"
"""Between two messages; JSON itself holds no line feed."""


def dump_message(message: ModelMessage) -> bytes:
    """Return a message as JSON; what has no JSON form goes in as text, a lone surrogate as U+FFFD."""
    try:
        return ModelMessagesTypeAdapter.dump_json([message], fallback=safe_text, warnings=False)[1:-1]
    except PydanticSerializationError:
        (data,) = ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=safe_text, warnings=False)
        return to_json(storable_value(data), inf_nan_mode="null")


def dump(messages: Sequence[ModelMessage]) -> bytes:
    """Return a whole history."""
    return SEPARATOR.join(map(dump_message, messages))


def load(history: bytes) -> list[ModelMessage]:
    """Return the messages of a history."""
    return ModelMessagesTypeAdapter.validate_json(b"[" + history + b"]")


@dataclass(slots=True)
class Recording:
    """The history that a live run has saved last, kept so that only what is new is serialised and written.

    `ends` holds the byte at which each message ends, `last` the bytes of the last one.
    """

    chain: Chain
    messages: list[ModelMessage]
    ends: list[int]
    last: bytes

    @classmethod
    def empty(cls) -> "Recording":
        return cls(Chain(), [], [], b"")

    @classmethod
    def of(cls, chain: Chain, history: bytes, messages: Sequence[ModelMessage]) -> "Recording":
        """Return the state after `history`, which holds `messages`, was read or written."""
        ends: list[int] = []
        last = b""
        if messages:
            end = -len(SEPARATOR)
            for last in history.split(SEPARATOR):
                end += len(SEPARATOR) + len(last)
                ends.append(end)
        return cls(chain, list(messages), ends, last)

    def save(self, messages: Sequence[ModelMessage], *, writer: int, number: int) -> list[Row]:
        """Go on to `messages` and return the history rows that this takes, none where nothing is new.

        The last message of the previous snapshot is compared by its bytes: it is still stamped after it was saved.
        """
        kept = max(0, min(_common(self.messages, messages), len(self.messages) - 1, len(messages) - 1))
        lines = [dump_message(message) for message in messages[kept:]]
        size = self.ends[kept - 1] if kept else 0
        glue = SEPARATOR if kept else b""
        suffix = glue + SEPARATOR.join(lines)
        # Where only the last message may differ, what it still begins with is kept too.
        same = common_prefix(glue + self.last, suffix) if kept == len(self.messages) - 1 else 0
        chain, rows = self.chain.cut(size + same).extend(writer, number, suffix[same:])
        ends = self.ends[:kept]
        for line in lines:
            ends.append((ends[-1] + len(SEPARATOR) if ends else 0) + len(line))
        self.chain, self.messages, self.ends, self.last = chain, list(messages), ends, lines[-1] if lines else b""
        return rows


def common_prefix(first: bytes, second: bytes) -> int:
    """Return how many bytes the two begin with alike."""
    if first == second[: len(first)]:
        return len(first)
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common(before: Sequence[ModelMessage], now: Sequence[ModelMessage]) -> int:
    """Return how many messages the two begin with alike."""
    if before == now[: len(before)]:
        return len(before)
    for index, (old, new) in enumerate(zip(before, now, strict=False)):
        if old is not new and old != new:
            return index
    return min(len(before), len(now))
