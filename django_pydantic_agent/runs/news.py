"""News of a run or a thread, and those who wait for it in one process: in threads and on event loops."""

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import ClassVar
from weakref import WeakKeyDictionary, ref


class News(ABC):
    """Something that goes on, counted by the number of what came last."""

    def __init__(self) -> None:
        self.is_closed = False
        """Whether this process has let those who wait go, although it goes on."""
        self._is_gone = False
        self._changed = threading.Condition()
        self._bells: set[LoopBell] = set()

    def vanish(self) -> None:
        """Learn that what goes on was deleted."""
        with self._changed:
            self._is_gone = True
            self._announce()

    def close(self) -> None:
        """Let those go who wait here, although it goes on."""
        with self._changed:
            self.is_closed = True
            self._announce()

    def wait(self, after: int, seconds: float) -> bool:
        """Block until something is behind seq `after` or never will be, or this is closed; False after `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_closed or self._has_news(after), seconds)

    async def wait_async(self, after: int, seconds: float) -> bool:
        """Do as `wait` does without blocking the event loop."""
        bell = LoopBell.of_running_loop()
        try:
            async with asyncio.timeout(seconds):
                while (future := self._expect(after, bell)) is not None:
                    try:
                        await future
                    finally:
                        bell.forget(self, future)
        except TimeoutError:
            return False
        return True

    def _expect(self, after: int, bell: "LoopBell") -> asyncio.Future[None] | None:
        """Return a future of the next change, None where nothing has to be waited for."""
        with self._changed:
            if self.is_closed or self._has_news(after):
                return None
            self._bells.add(bell)
            return bell.expect(self)

    @abstractmethod
    def _has_news(self, after: int) -> bool:
        """Return whether something is behind the number `after`, or nothing ever will be."""

    def _announce(self) -> None:
        self._changed.notify_all()
        bells, self._bells = self._bells, set()
        for bell in bells:
            bell.ring(self)


class LoopBell:
    """Wakes the viewers of one event loop, however many there are, with one call into the loop."""

    _by_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, "LoopBell"]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A strong reference would keep the loop, which is the key of this in `_by_loop`, for ever.
        self._loop = ref(loop)
        self._expecting: dict[News, set[asyncio.Future[None]]] = {}
        self._rung: set[News] = set()
        self._lock = threading.Lock()

    @classmethod
    def of_running_loop(cls) -> "LoopBell":
        loop = asyncio.get_running_loop()
        bell = cls._by_loop.get(loop)
        if bell is None:
            bell = cls._by_loop[loop] = cls(loop)
        return bell

    def expect(self, log: News) -> asyncio.Future[None]:
        """Return a future that is done once `log` has changed. Called in the loop."""
        future = asyncio.get_running_loop().create_future()
        self._expecting.setdefault(log, set()).add(future)
        return future

    def forget(self, log: News, future: asyncio.Future[None]) -> None:
        """Drop a future that nobody waits for any more. Called in the loop."""
        expecting = self._expecting.get(log)
        if expecting is not None:
            expecting.discard(future)
            if not expecting:
                del self._expecting[log]

    def ring(self, log: News) -> None:
        """Tell the loop that `log` has changed. Called from any thread."""
        with self._lock:
            is_first = not self._rung
            self._rung.add(log)
        if not is_first:
            return
        try:
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._wake)
                return
        except RuntimeError:
            pass
        # The loop is closed, its viewers are gone.
        with self._lock:
            self._rung.clear()

    def _wake(self) -> None:
        with self._lock:
            rung, self._rung = self._rung, set()
        for log in rung:
            for future in self._expecting.pop(log, ()):
                if not future.done():
                    future.set_result(None)
