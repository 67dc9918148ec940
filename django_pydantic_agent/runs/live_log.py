"""The committed log of a run, as the viewers of one process see it."""

import logging
import sys
import time
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass, field

from django.db import InterfaceError, OperationalError

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.log.frames import within_bytes
from django_pydantic_agent.runs.news import News
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunStore

logger = logging.getLogger(__name__)

END = sys.maxsize
"""A seq that nothing is behind: who waits for what is, waits for the end."""

READ_BYTES = 1024 * 1024
"""What a viewer is handed at once, or one frame where that is larger: all that is kept for one that is slow."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive frames, the first of them under `first_seq`. Without frames: nothing came for a while.

    Those of a preamble stand together for all that came before and under `first_seq`. `run_id` is that of the frames'
    run where a viewer is shown several.
    """

    first_seq: int
    frames: list[bytes] = field(default_factory=list)
    run_id: str | None = None
    is_preamble: bool = False


class LiveLog(News):
    """The newest frames of a run in memory, the others in its store.

    Who learns of committed frames publishes them. A viewer keeps nothing here but its cursor: it reads what follows the
    cursor, from memory or from the store, so that there is no hand-over in which a frame could be lost or doubled, and
    a slow viewer holds nothing up.
    """

    def __init__(self, store: RunStore, key: int, *, last_seq: int, status: RunStatus) -> None:
        super().__init__()
        self.store = store
        self.key = key
        self.last_seq = last_seq
        self.status = status
        self.readers: Executor | None = None
        """What reads the store for viewers on an event loop, where only the thread of the run's starter can."""
        self.first_read: float | None = None
        """When the first viewer was given frames, by the monotonic clock."""
        self._tail: deque[Batch] = deque()
        self._tail_bytes = 0

    @property
    def ended(self) -> bool:
        """Whether nothing can come behind `last_seq`."""
        return self._is_gone or not self.status.is_live

    def publish(self, first_seq: int, frames: list[bytes], status: RunStatus | None) -> None:
        """Show committed frames, and the status that the last of them brings."""
        with self._changed:
            self._tail.append(Batch(first_seq, frames))
            self._tail_bytes += sum(map(len, frames))
            while self._tail_bytes > agent_settings.LIVE_TAIL_BYTES and len(self._tail) > 1:
                self._tail_bytes -= sum(map(len, self._tail.popleft().frames))
            self.last_seq = first_seq + len(frames) - 1
            self.status = status or self.status
            self._announce()

    def learn(self, progress: tuple[int, RunStatus] | None) -> None:
        """Learn from the store how far a run has come that executes elsewhere, None where it is gone."""
        if progress is None:
            self.vanish()
        else:
            self.advance(*progress)

    def advance(self, last_seq: int, status: RunStatus) -> None:
        """Learn from the store how far a run has come that executes elsewhere."""
        with self._changed:
            if last_seq != self.last_seq or status is not self.status:
                # What the run has written elsewhere is not behind the tail, but in the store.
                self._tail.clear()
                self._tail_bytes = 0
                self.last_seq, self.status = last_seq, status
                self._announce()

    def read(self, after: int) -> list[bytes] | None:
        """Return the next frames behind seq `after`, at most READ_BYTES of them; None where only the store has them."""
        newer: list[Batch] = []
        with self._changed:
            if after >= self.last_seq:
                return []
            for batch in reversed(self._tail):
                newer.append(batch)
                if batch.first_seq <= after + 1:
                    break
            else:
                return None
            self._note_read()
        oldest = newer.pop()
        frames = oldest.frames[after + 1 - oldest.first_seq :]
        for batch in reversed(newer):
            frames += batch.frames
        return within_bytes(frames, READ_BYTES)

    def read_stored(self, after: int) -> list[bytes] | None:
        """Return frames behind seq `after` from the store, None while it cannot be read; let go of the connection.

        None of them are left where the run or that part of its log is gone.
        """
        try:
            frames = self.store.read_frames(self.key, after=after, max_bytes=READ_BYTES)
            self._note_read()
            return frames
        except LogPruned:
            return []
        except (OperationalError, InterfaceError):
            logger.warning("The log of run %d cannot be read now; its viewers wait.", self.key, exc_info=True)
            return None
        finally:
            release_connections()

    def _note_read(self) -> None:
        if self.first_read is None:
            self.first_read = time.monotonic()

    def _has_news(self, after: int) -> bool:
        return self.last_seq > after or self.ended
