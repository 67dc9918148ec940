"""The Django side, with a stop-watch on the server's event loop."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

TICK_SECONDS = 0.001


class LoopTimer:
    """An application that also answers `/lateness/`.

    Every other request starts a timer of 1 ms, the one after it stops the timer and says how many seconds late it came
    at worst.
    """

    def __init__(self, inner: Callable[..., Awaitable[None]]) -> None:
        self._inner = inner
        self._ticking: asyncio.Task[None] | None = None
        self._worst = 0.0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/lateness/":
            await self._inner(scope, receive, send)
            return
        if self._ticking is None:
            self._worst = 0.0
            self._ticking = asyncio.create_task(self._tick())
        else:
            self._ticking.cancel()
            self._ticking = None
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(self._worst).encode()})

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._worst = max(self._worst, loop.time() - due)


application = LoopTimer(get_asgi_application())
