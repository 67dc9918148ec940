"""Beginning and ending in good order with the ASGI server."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from django_pydantic_agent.runs.drain import drain_on_sigterm

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]


def with_lifespan(application: Application) -> Application:
    """Return `application`, answering the lifespan events of the server in its place.

    Before the first request this process begins to look for runs whose process is gone, and gets ready to shut down at
    SIGTERM. When the server ends, no more runs begin and those that go on get SHUTDOWN_GRACE_SECONDS. To be called when
    Django is set up, as `get_asgi_application()` does.
    """

    async def wrapped(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await application(scope, receive, send)

    return wrapped


async def _live(receive: Receive, send: Send) -> None:
    from django_pydantic_agent.runs.engine import get_engine, shut_down_engine

    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            drain_on_sigterm()
            await asyncio.to_thread(get_engine().watch_leases)
            await send({"type": "lifespan.startup.complete"})
        else:
            await asyncio.to_thread(shut_down_engine)
            await send({"type": "lifespan.shutdown.complete"})
            return
