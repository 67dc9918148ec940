"""Reading a posted body within the mount's own limit."""

import json
import re
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

from django_ag_ui.api.exceptions import BodyTooLarge, TooManyMessages
from django_ag_ui.conf import AGUIConfig

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

CHUNK_BYTES = 64 * 1024
MEDIA_TYPE = "application/json"

# An escape sequence of JSON; the group is a surrogate without its other half.
_ESCAPE = re.compile(
    rb"\\(?:[^u]|u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2}))"
)


class BodyParser(BaseParser):
    """Gives `request.data` to the project's own permission classes."""

    media_type = MEDIA_TYPE

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        view, request = parser_context["view"], parser_context["request"]
        body = read_body(request._request, view.server.config.max_body_bytes)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ParseError("the body is not valid JSON") from error


def read_body(request: HttpRequest, limit: int) -> bytes:
    """Return the body of at most `limit` bytes, in place of `request.body`, whose own limit is the project's.

    Raises `BodyTooLarge`. What is too much is still taken from the client, up to ten times the limit, since many
    clients read no answer before they have sent all.
    """
    if not hasattr(request, "_body"):
        source, chunks, size = _source(request), [], 0
        while chunk := source.read(CHUNK_BYTES):
            size += len(chunk)
            if size <= limit:
                chunks.append(chunk)
            elif size > 10 * limit:
                break
        if size > limit:
            raise BodyTooLarge(f"the body is longer than {limit} bytes")
        request._body = b"".join(chunks)
    body: bytes = request.body
    if len(body) > limit:
        raise BodyTooLarge(f"the body is longer than {limit} bytes")
    return body


def _source(request: HttpRequest) -> Any:
    """Return what the body is read from; Django itself takes a WSGI body without a declared length for empty."""
    if request.META.get("wsgi.input_terminated") and not request.META.get("CONTENT_LENGTH"):
        return request.META["wsgi.input"]
    return request


def read_run_input(request: HttpRequest, config: AGUIConfig) -> "tuple[bytes, RunAgentInput]":
    """Return the raw body and the `RunAgentInput` in it.

    Raises `UnsupportedMediaType`, `BodyTooLarge`, `TooManyMessages` or the engine's `InvalidInput`.
    """
    from django_pydantic_agent.log.accept import parse_input

    if request.content_type != MEDIA_TYPE:
        raise UnsupportedMediaType(request.content_type or "without a Content-Type")
    body = read_body(request, config.max_body_bytes)
    run_input = parse_input(_without_lone_surrogates(body))
    if len(run_input.messages) > config.max_messages:
        raise TooManyMessages(f"the input holds more than {config.max_messages} messages")
    return body, run_input


def _without_lone_surrogates(body: bytes) -> bytes:
    """Return the JSON with U+FFFD for what no UTF-8 text can hold, though browsers send it."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], body)
