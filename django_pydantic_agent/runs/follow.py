"""Following a run: what its log holds behind a cursor, then what comes live, without a seam."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_pydantic_agent.log.frames import is_terminal
from django_pydantic_agent.runs.live_log import Batch, LiveLog

if TYPE_CHECKING:
    from django_pydantic_agent.log.preamble import Preamble

RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A viewer of one run, iterated with `async for` or with `for`.

    Yields the preamble, if there is one, `Batch`es of committed frames behind seq `after`, and a batch without frames
    whenever `idle_seconds` passed in silence. Ends behind the terminal frame, or before it where the log is not kept
    any more. Between two batches it holds no thread and no database connection.
    """

    log: LiveLog
    readers: Executor
    after: int = 0
    preamble: "Preamble | None" = None
    idle_seconds: float

    async def __aiter__(self) -> AsyncIterator[Batch]:
        after, loop = self.after, asyncio.get_running_loop()
        if self.preamble is not None:
            yield _opening(self.preamble)
            if is_terminal(self.preamble.frames[-1]):
                return
        while True:
            frames = self.log.read(after)
            if frames is None:
                frames = await loop.run_in_executor(self.readers, self.log.read_stored, after)
                if frames is None:
                    yield Batch(after + 1)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if not frames:
                    return
            if frames:
                yield Batch(after + 1, frames)
                after += len(frames)
            elif self.log.ended and after >= self.log.last_seq:
                return
            elif not await self.log.wait_async(after, self.idle_seconds):
                yield Batch(after + 1)

    def __iter__(self) -> Iterator[Batch]:
        after = self.after
        if self.preamble is not None:
            yield _opening(self.preamble)
            if is_terminal(self.preamble.frames[-1]):
                return
        while True:
            frames = self.log.read(after)
            if frames is None:
                frames = self.log.read_stored(after)
                if frames is None:
                    yield Batch(after + 1)
                    time.sleep(RETRY_SECONDS)
                    continue
                if not frames:
                    return
            if frames:
                yield Batch(after + 1, frames)
                after += len(frames)
            elif self.log.ended and after >= self.log.last_seq:
                return
            elif not self.log.wait(after, self.idle_seconds):
                yield Batch(after + 1)


def _opening(preamble: "Preamble") -> Batch:
    return Batch(preamble.seq, preamble.frames, is_preamble=True)
