"""Texts of any size in the admin: shown in short, streamed whole."""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

SHOWN_CHARACTERS = 2_000
PIECES_AT_ONCE = 100
MEDIA_TYPES = {"txt": "text/plain", "json": "application/json", "jsonl": "application/jsonl"}


def as_text(value: Any) -> str:
    """Return the value of a column as text, empty where there is none: JSON data as JSON, bytes as what they hold."""
    if value is None or value in ("", b"", [], {}):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode(errors="replace")
    return json.dumps(value, ensure_ascii=False, indent=2)


def in_short(text: str, url: str) -> SafeString:
    """Return the HTML of the beginning of a text, with a link to the whole at `url` where it is longer."""
    length = len(text) if len(text) > SHOWN_CHARACTERS else None
    return beginning(text[:SHOWN_CHARACTERS], url, is_cut=length is not None, length=length)


def beginning(text: str, url: str, *, is_cut: bool, length: int | None = None) -> SafeString:
    """Return the HTML of the beginning of a text of so many characters, with a link to the whole where it is cut."""
    context = {"text": text, "url": url, "is_cut": is_cut, "length": length}
    return render_to_string("admin/django_pydantic_agent_store/payload.html", context)


def download(request: HttpRequest, pieces: Iterator[str], *, name: str) -> StreamingHttpResponse:
    """Stream a file whose name ends in `txt`, `json` or `jsonl`."""
    chunks = _joined(pieces)
    return StreamingHttpResponse(
        _in_a_thread(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type=f"{MEDIA_TYPES[name.rpartition('.')[2]]}; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        },
    )


def _joined(pieces: Iterator[str]) -> Iterator[bytes]:
    while some := list(islice(pieces, PIECES_AT_ONCE)):
        yield "".join(some).encode(errors="replace")


async def _in_a_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield from what reads the database."""

    def following() -> bytes | None:
        return next(chunks, None)

    while (chunk := await sync_to_async(following)()) is not None:
        yield chunk
