"""Frames: AG-UI events encoded once, in the form that is stored and sent."""

import re
from itertools import accumulate
from typing import Any, TypeAlias

from ag_ui.core import BaseEvent, EventType, ToolCallResultEvent
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

from django_pydantic_agent.conf import agent_settings

JsonObject: TypeAlias = dict[str, Any]

RUN_LEVEL = frozenset({EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.RUN_ERROR})
"""The events that begin and end a run, which the engine alone may send."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NUL_ESCAPE = "\\u0000"


def storable(text: str) -> str:
    """Return `text` with NUL and lone surrogates, which not every database takes, as U+FFFD."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub(REPLACEMENT, text)


def storable_value(value: Any) -> Any:
    """Return JSON data with every string in it, keys included, made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value


def safe_text(value: object) -> str:
    """Return a text for a value that has no JSON form, whatever the value does when asked."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def encode(model: BaseModel) -> bytes:
    """Return an event or message as one line of JSON in UTF-8: no null fields, NaN and infinities as null."""
    try:
        line = model.model_dump_json(by_alias=True, fallback=safe_text)
        if _NUL_ESCAPE not in line:
            return line.encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        pass
    return _encode_data(model.model_dump(by_alias=True))


def frame_starts(*types: str) -> tuple[bytes, ...]:
    """Return what the frames of events of these types start with."""
    return tuple(b'{"type":"%s"' % EventType(kind).value.encode() for kind in types)


_TERMINAL = frame_starts(EventType.RUN_FINISHED, EventType.RUN_ERROR)


def within_bytes(frames: list[bytes], max_bytes: int) -> list[bytes]:
    """Return the first frames that hold `max_bytes`, at least one of them."""
    for count, size in enumerate(accumulate(map(len, frames))):
        if size > max_bytes:
            return frames[: max(count, 1)]
    return frames


def is_terminal(frame: bytes) -> bool:
    """Return whether a frame is the last one of its run."""
    return frame.startswith(_TERMINAL)


def wire_form(value: Any) -> Any:
    """Return the JSON data that a model, or JSON data, is on the wire."""
    return from_json(encode(value) if isinstance(value, BaseModel) else _encode_data(value))


def attempt_metadata(attempt: int) -> JsonObject:
    """Return the metadata of a MESSAGES_SNAPSHOT that an attempt at a run begins with."""
    return {"django_ag_ui": {"attempt": attempt}}


def begins_attempt(event: JsonObject) -> bool:
    """Return whether a MESSAGES_SNAPSHOT takes back what an earlier attempt had begun to say.

    Others tell a client what the thread holds anyway.
    """
    return "attempt" in event.get("metadata", {}).get("django_ag_ui", {})


def _encode_data(data: Any) -> bytes:
    return to_json(storable_value(data), inf_nan_mode="null", fallback=safe_text)


def bounded(event: BaseEvent) -> BaseEvent:
    """Return the event, a tool result over MAX_RESULT_BYTES cut and marked as cut."""
    if not isinstance(event, ToolCallResultEvent) or not isinstance(event.content, str):
        return event
    limit: int = agent_settings.MAX_RESULT_BYTES
    if len(event.content) * 4 <= limit:
        return event
    content = event.content.encode(errors="replace")
    if len(content) <= limit:
        return event
    kept = content[:limit].decode(errors="ignore")
    note = f"\n[shortened: the first {limit} of {len(content)} bytes]"
    return event.model_copy(update={"content": kept + note})
