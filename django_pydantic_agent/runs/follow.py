"""Following a run: what its log holds behind a cursor, then what comes live, without a seam."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_pydantic_agent.log.frames import is_terminal
from django_pydantic_agent.runs.live_log import Batch, LiveLog
from django_pydantic_agent.runs.viewers import Viewer
from django_pydantic_agent.stores.base import StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.log.preamble import Preamble

RETRY_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class Follower:
    """What follows one run for a viewer, iterated with `async for` or with `for`.

    Yields the preamble, if there is one, `Batch`es of committed frames behind seq `after`, and a batch without frames
    whenever `idle_seconds` passed in silence, or at once where nothing is there yet. Ends behind the terminal frame, or
    before it where the log is not kept any more or where this process lets its viewers go. Between two batches it holds
    no thread and no database connection. Who sends the viewer away sets `viewer.sent_away` before closing this.
    """

    run: StoredRun
    log: LiveLog
    viewer: Viewer
    readers: Executor
    after: int = 0
    preamble: "Preamble | None" = None
    idle_seconds: float

    async def __aiter__(self) -> AsyncGenerator[Batch]:
        after, patience, loop = self.after, 0.0, asyncio.get_running_loop()
        with self.viewer.watches(self.log.store, self.run):
            if self.preamble is not None:
                opening, self.preamble = _opening(self.preamble), None
                yield opening
                if is_terminal(opening.frames[-1]):
                    return
                del opening
            while True:
                frames = self.log.read(after)
                if frames is None:
                    frames = await loop.run_in_executor(self.readers, self.log.read_stored, after)
                    if frames is None:
                        yield Batch(after + 1)
                        await asyncio.sleep(RETRY_SECONDS)
                    elif not frames:
                        self.viewer.misses_rest = True
                        return
                if frames:
                    yield Batch(after + 1, frames)
                    after += len(frames)
                if self._is_over(after):
                    return
                if frames == [] and not await self.log.wait_async(after, patience):
                    yield Batch(after + 1)
                patience = self.idle_seconds

    def __iter__(self) -> Generator[Batch]:
        after, patience = self.after, 0.0
        with self.viewer.watches(self.log.store, self.run):
            if self.preamble is not None:
                opening, self.preamble = _opening(self.preamble), None
                yield opening
                if is_terminal(opening.frames[-1]):
                    return
                del opening
            while True:
                frames = self.log.read(after)
                if frames is None:
                    frames = self.log.read_stored(after)
                    if frames is None:
                        yield Batch(after + 1)
                        time.sleep(RETRY_SECONDS)
                    elif not frames:
                        self.viewer.misses_rest = True
                        return
                if frames:
                    yield Batch(after + 1, frames)
                    after += len(frames)
                if self._is_over(after):
                    return
                if frames == [] and not self.log.wait(after, patience):
                    yield Batch(after + 1)
                patience = self.idle_seconds

    def _is_over(self, after: int) -> bool:
        if self.log.ended:
            is_over = after >= self.log.last_seq
            self.viewer.misses_rest |= is_over and self.log.status.is_live
            return is_over
        self.viewer.sent_away |= self.log.is_closed
        return self.log.is_closed


def _opening(preamble: "Preamble") -> Batch:
    return Batch(preamble.seq, preamble.frames, is_preamble=True)
