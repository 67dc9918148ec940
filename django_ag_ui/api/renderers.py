"""Answers are JSON whatever the client accepts: an event-stream client must be able to read an error."""

import json
from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class JSONRenderer(BaseRenderer):
    """Compact UTF-8 JSON, independent of the project's REST framework settings."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")


class EventStreamRenderer(JSONRenderer):
    """Names the media type of streams; what is rendered beside a stream is JSON."""

    media_type = "text/event-stream"
    format = "event-stream"


class FixedNegotiation(BaseContentNegotiation):
    """Take the first parser and the first renderer, so that no `Accept` header is refused."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type
