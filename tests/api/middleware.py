"""Middleware that projects have."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_only_middleware


def read_body(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Read each body, as one that logs requests does."""

    def middleware(request: HttpRequest) -> HttpResponse:
        assert request.body is not None
        return get_response(request)

    return middleware


@sync_only_middleware
def synchronous(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Do nothing, synchronously."""

    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    return middleware


def counting(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Map the chunks of a stream through an asynchronous generator, as the documentation of Django shows."""

    def middleware(request: HttpRequest) -> Any:
        response = get_response(request)
        if response.streaming and response.is_async:
            response.streaming_content = mapped(response.streaming_content)
        return response

    return middleware


async def mapped(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for chunk in content:
        yield chunk
