"""How fast a viewer takes what it is sent."""

import asyncio
import time
from types import TracebackType
from typing import Self


class ViewerPace:
    """Notes that a viewer took longer than `seconds` for a piece.

    Entered on an event loop, it also cancels the running task once a piece was not taken for twice as long: nothing
    can be sent to such a viewer any more, and it is the task that waits for it.
    """

    __slots__ = ("_loop", "_offered", "_seconds", "_task", "_timer", "is_too_slow")

    def __init__(self, seconds: float) -> None:
        self.is_too_slow = False
        self._seconds = seconds
        self._offered: float | None = None

    def offer(self) -> None:
        self._offered = time.monotonic()

    def taken(self) -> None:
        if self._offered is not None and time.monotonic() - self._offered > self._seconds:
            self.is_too_slow = True
        self._offered = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer = self._loop.call_later(2 * self._seconds, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        waits = 0.0 if self._offered is None else time.monotonic() - self._offered
        if waits < 2 * self._seconds:
            self._timer = self._loop.call_later(2 * self._seconds - waits, self._look)
        elif self._task is not None:
            self.is_too_slow = True
            self._task.cancel()
