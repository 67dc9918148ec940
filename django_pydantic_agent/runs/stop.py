"""Stopping a run: its agent, and before there is one whatever the run waits for."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pydantic_ai import CancellationToken
from pydantic_ai.exceptions import RunCancelled, RunTimedOut

T = TypeVar("T")


class Stop:
    """Asks one run to stop; `token` is what its agent hears of that."""

    def __init__(self) -> None:
        self.token = CancellationToken()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limit: asyncio.Timeout | None = None

    def request(self) -> None:
        """Ask the run to stop; safe from any thread, and more than once."""
        self.token.cancel()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_limit)

    async def first(self, waiting: Awaitable[T], *, seconds: float | None = None) -> T:
        """Return what is waited for; raise `RunCancelled` where the stop comes first, `RunTimedOut` after `seconds`.

        A synchronous hook goes on in its thread then, and nobody hears of its result.
        """
        self._loop = asyncio.get_running_loop()
        self._limit = limit = asyncio.timeout(seconds)
        try:
            async with limit:
                if self.token.cancelled:
                    self._end_limit()
                return await waiting
        except TimeoutError:
            if not limit.expired():
                raise
            if self.token.cancelled:
                raise RunCancelled("the run was stopped before its agent began") from None
            raise RunTimedOut("the time of the run was over before its agent began") from None
        finally:
            self._limit = None

    def _end_limit(self) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)
