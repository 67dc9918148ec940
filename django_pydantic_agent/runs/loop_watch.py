"""Whether the engine's event loop turns: what blocks it stalls every run of the process."""

import asyncio
import logging
import sys
import threading
import time
import traceback

logger = logging.getLogger(__name__)

BLOCKED_SECONDS = 1.0


class LoopWatch:
    """Logs where an event loop stands that has not turned for BLOCKED_SECONDS, once for each time that it is blocked.

    `thread` is the loop's; `look` is called again and again from one other thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._loop = loop
        self._thread = thread
        self._asked: float | None = None
        self._is_told = False

    def look(self) -> None:
        """Ask the loop for a sign of life, or see whether it owes one for too long."""
        if self._asked is None:
            self._asked, self._is_told = time.monotonic(), False
            self._loop.call_soon_threadsafe(self._answer)
        elif not self._is_told and time.monotonic() - self._asked > BLOCKED_SECONDS:
            self._is_told = True
            frame = sys._current_frames().get(self._thread.ident or 0)
            logger.warning(
                "The event loop of the agents is blocked; all runs of this process wait for what does not await:\n%s",
                "".join(traceback.format_stack(frame)),
            )

    def _answer(self) -> None:
        self._asked = None
