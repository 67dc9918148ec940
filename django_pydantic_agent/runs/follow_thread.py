"""Following a thread: one run of it, then each that is accepted behind."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Executor
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import InterfaceError, OperationalError

from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.exceptions import RunNotFound, ThreadNotFound
from django_pydantic_agent.log.frames import is_terminal
from django_pydantic_agent.runs.follow import RETRY_SECONDS, Follower
from django_pydantic_agent.runs.live_log import Batch
from django_pydantic_agent.runs.live_thread import LiveThread
from django_pydantic_agent.runs.viewers import Viewer
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ThreadRun

if TYPE_CHECKING:
    from django_pydantic_agent.log.preamble import Preamble

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A run of a thread and what follows it, None where nothing of it can be shown."""

    key: int
    run_id: str = ""
    follower: Follower | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFollower:
    """A viewer of one thread, iterated with `async for` or with `for`.

    Yields the batches of one run after the other, each with the id of its run, and a batch without frames whenever
    `idle_seconds` passed in silence, or at once where nothing is there yet. A run that has replaced messages of the
    thread, or whose log was pruned, begins with a preamble. Ends where the thread is gone, where a run cannot be shown
    to its end, or where this process lets its viewers go.
    """

    thread: LiveThread
    store: RunStore
    follow: "Callable[[StoredRun, Preamble | None], Follower]"
    viewer: Viewer
    readers: Executor
    first: Part
    idle_seconds: float

    async def __aiter__(self) -> AsyncGenerator[Batch]:
        part, patience, loop = self.first, 0.0, asyncio.get_running_loop()
        while True:
            if part.follower is not None:
                last = None
                async with aclosing(aiter(part.follower)) as batches:
                    async for batch in batches:
                        last = batch if batch.frames else last
                        yield _of_run(part.run_id, batch)
                if not _is_whole(part.follower, last):
                    return
            while not await self.thread.wait_async(part.key, patience):
                yield Batch(0)
                patience = self.idle_seconds
            if self._is_over():
                return
            while (found := await loop.run_in_executor(self.readers, self._behind, part.key)) is None:
                yield Batch(0)
                await asyncio.sleep(RETRY_SECONDS)
            part = found

    def __iter__(self) -> Generator[Batch]:
        part, patience = self.first, 0.0
        while True:
            if part.follower is not None:
                last = None
                with closing(iter(part.follower)) as batches:
                    for batch in batches:
                        last = batch if batch.frames else last
                        yield _of_run(part.run_id, batch)
                if not _is_whole(part.follower, last):
                    return
            while not self.thread.wait(part.key, patience):
                yield Batch(0)
                patience = self.idle_seconds
            if self._is_over():
                return
            while (found := self._behind(part.key)) is None:
                yield Batch(0)
                time.sleep(RETRY_SECONDS)
            part = found

    def _is_over(self) -> bool:
        self.viewer.sent_away |= self.thread.is_closed
        return self.thread.ended or self.thread.is_closed

    def _behind(self, key: int) -> Part | None:
        """Return the next run behind that of `key`, None while the store cannot be read; let go of the connection."""
        owner, thread_id = self.thread.key
        newest = self.thread.newest
        try:
            found = self.thread.store.next_run(owner=owner, thread_id=thread_id, after=key)
            # Where there is none, those that were accepted behind are gone.
            return Part(key=newest) if found is None else self._part(found)
        except ThreadNotFound:
            self.thread.vanish()
            return Part(key=key)
        except (OperationalError, InterfaceError):
            logger.warning("A thread cannot be read now; its viewers wait.", exc_info=True)
            return None
        finally:
            release_connections()

    def _part(self, found: ThreadRun) -> Part:
        from django_pydantic_agent.runs.attach import preamble

        run = self.store.by_key(found.key, owner=self.thread.key[0])
        if run is None:
            return Part(key=found.key)
        begins_anew = found.replaces or self.store.first_seq(run.key) > 1
        try:
            opening = preamble(run, store=self.store, conversation=self.thread.store) if begins_anew else None
        except RunNotFound:
            return Part(key=found.key)
        return Part(key=run.key, run_id=run.run_id, follower=self.follow(run, opening))


def _of_run(run_id: str, batch: Batch) -> Batch:
    return Batch(batch.first_seq, batch.frames, run_id, batch.is_preamble)


def _is_whole(follower: Follower, last: Batch | None) -> bool:
    """Return whether a viewer has seen its run to the end."""
    if last is None:
        return follower.log.ended and follower.after >= follower.log.last_seq
    return is_terminal(last.frames[-1])
