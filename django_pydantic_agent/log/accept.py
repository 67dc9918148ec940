"""From what a client posted to what a run is given: parsed, checked, and cut down to what counts."""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ag_ui.core import AssistantMessage, DataSource, FileSource, Message, RunAgentInput, ToolMessage
from pydantic import ValidationError
from pydantic_ai.ui.ag_ui import AGUIAdapter

from django_pydantic_agent.exceptions import InvalidInput, NothingToRun
from django_pydantic_agent.log.frames import storable

MAX_ID_BYTES = 1024

_NUL_ESCAPE = b"\\u0000"
_BINARY_KINDS = ("image", "audio", "video")


def parse_input(body: bytes) -> RunAgentInput:
    """Return the `RunAgentInput` in a request body.

    `binary` content parts of clients older than AG-UI 1.0 become the media parts that replaced them, and ids of
    messages, tool calls and interrupts what they are in the store. Raises `InvalidInput` for anything that is not a
    valid input, ids of the thread and the run that break the rule of `check_id` included.
    """
    try:
        run_input = RunAgentInput.model_validate_json(body)
    except ValidationError as error:
        if b'"binary"' not in body:
            raise InvalidInput(_explain(error)) from error
        run_input = _parse_legacy(body)
    check_id("threadId", run_input.thread_id)
    check_id("runId", run_input.run_id)
    if _NUL_ESCAPE in body:
        _make_ids_storable(run_input)
    return run_input


def check_id(name: str, value: str) -> None:
    """Raise `InvalidInput` unless `value` is 1 to 1,024 bytes of UTF-8 without control characters."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} is not valid Unicode") from None
    if not 0 < size <= MAX_ID_BYTES:
        raise InvalidInput(f"{name} must be 1 to {MAX_ID_BYTES} bytes long")
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in value):
        raise InvalidInput(f"{name} must not hold control characters")


def accept_transcript(run_input: RunAgentInput) -> RunAgentInput:
    """Return the input of a run whose posted transcript is its whole history.

    Raises `NothingToRun` where no user message or tool result follows the last answer, `InvalidInput` where a message
    cannot be given to the model.
    """
    if not any(message.role in ("user", "tool") for message in new_messages(run_input.messages)):
        raise NothingToRun
    _check_questions(new_messages(run_input.messages))
    _check_messages(run_input.messages)
    return run_input


def accept_continuation(
    run_input: RunAgentInput, *, known_ids: set[str], open_end: Callable[[], bool]
) -> RunAgentInput:
    """Return the input of a run that continues another: only the user messages that are new.

    New are those whose ids are not in `known_ids` and that come after the newest known message or, where the post
    holds none, after its last answer. Raises `NothingToRun` where none is new and `open_end()` says that the history
    itself leaves the model nothing to answer.
    """
    messages = run_input.messages
    known = [index for index, message in enumerate(messages) if message.id in known_ids]
    unknown = messages[known[-1] + 1 :] if known else new_messages(messages)
    accepted: list[Message] = [message for message in unknown if message.role == "user"]
    if not accepted and not open_end():
        raise NothingToRun
    _check_questions(accepted)
    _check_messages(accepted)
    return run_input.model_copy(update={"messages": accepted})


def accept_turn(
    run_input: RunAgentInput, messages: Sequence[Message], *, imported: Sequence[Message] = ()
) -> RunAgentInput:
    """Return the input of a run in a thread, which takes `messages` of the post and no others.

    `imported` is what the post makes the thread begin with. Raises `InvalidInput` where a message cannot be given to
    the model.
    """
    _check_questions(messages)
    _check_sources(messages)
    # The calls that results answer are in the thread.
    _check_messages([*imported, *(message for message in messages if message.role != "tool")])
    return run_input.model_copy(update={"messages": list(messages)})


def accept_answer(run_input: RunAgentInput, *, calls: Collection[str]) -> RunAgentInput:
    """Return the input of a run outside of threads that answers interrupts: results of `calls`, and what is new."""
    results: dict[str, Message] = {}
    for message in run_input.messages:
        if message.role == "tool" and message.tool_call_id in calls:
            results.setdefault(message.tool_call_id, message)
    asked = [message for message in new_messages(run_input.messages) if message.role == "user"]
    return accept_turn(run_input, [*results.values(), *asked])


def new_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last answer, tool results of that answer included."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[index + 1 :]
    return messages


def _parse_legacy(body: bytes) -> RunAgentInput:
    try:
        data = json.loads(body)
        for message in data["messages"]:
            if isinstance(message.get("content"), list):
                message["content"] = [_modern_part(part) for part in message["content"]]
        return RunAgentInput.model_validate(data)
    except ValidationError as error:
        raise InvalidInput(_explain(error)) from error
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("the body is not a valid RunAgentInput") from error


def _modern_part(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "binary":
        return part
    mime_type = part.get("mimeType", "")
    kind = mime_type.partition("/")[0]
    source = (
        {"type": "url", "value": part["url"], "mimeType": mime_type}
        if part.get("url")
        else {"type": "data", "value": part.get("data"), "mimeType": mime_type}
    )
    return {"type": kind if kind in _BINARY_KINDS else "document", "source": source}


def _make_ids_storable(run_input: RunAgentInput) -> None:
    for message in run_input.messages:
        message.id = storable(message.id)
        if isinstance(message, ToolMessage):
            message.tool_call_id = storable(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                call.id = storable(call.id)
    for entry in run_input.resume or ():
        entry.interrupt_id = storable(entry.interrupt_id)


def _check_questions(messages: Iterable[Message]) -> None:
    for message in messages:
        if message.role == "user" and message.content == []:
            raise InvalidInput(f"message {message.id!r} has no content")


def _check_messages(messages: Sequence[Message]) -> None:
    _check_sources(messages)
    try:
        AGUIAdapter.load_messages(messages)
    except Exception as error:
        raise InvalidInput("the messages cannot be read as a conversation") from error


def _check_sources(messages: Iterable[Message]) -> None:
    for message in messages:
        if message.role in ("user", "tool") and not isinstance(message.content, str):
            for part in message.content:
                _check_source(message.id, getattr(part, "source", None))


def _check_source(message_id: str, source: Any) -> None:
    if isinstance(source, FileSource):
        raise InvalidInput(f"message {message_id!r} refers to a file that this server does not hold")
    if isinstance(source, DataSource):
        try:
            b64decode(source.value, validate=True)
        except (Base64Error, ValueError):
            raise InvalidInput(f"message {message_id!r} holds data that is not base64") from None


def _explain(error: ValidationError) -> str:
    """Return where and how the first faults lie, without repeating what was posted."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    if faults[0]["type"] == "json_invalid":
        return "the body is not valid JSON"
    places = (f"{'.'.join(str(step) for step in fault['loc'])}: {fault['type']}" for fault in faults[:5])
    return "the body is not a valid RunAgentInput (" + "; ".join(places)[:1000] + ")"
