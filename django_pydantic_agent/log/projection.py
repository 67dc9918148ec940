"""What a run's events say about its messages."""

from collections.abc import Iterable, Iterator

from ag_ui.core import BaseEvent, EventType, Message

_NAMES_A_MESSAGE = frozenset(
    {
        EventType.TEXT_MESSAGE_START,
        EventType.REASONING_MESSAGE_START,
        EventType.TOOL_CALL_RESULT,
        EventType.ACTIVITY_SNAPSHOT,
    }
)


class MessageIds:
    """The ids of the messages that a run's events make, in order of appearance."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._ids = dict.fromkeys(message.id for message in messages)

    def observe(self, event: BaseEvent) -> None:
        if event.type in _NAMES_A_MESSAGE:
            self._ids[event.message_id] = None
        elif event.type is EventType.MESSAGES_SNAPSHOT:
            self._ids.update(dict.fromkeys(message.id for message in event.messages))

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
