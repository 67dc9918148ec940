"""What one live run queues for writing."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import LeaseLost, StoreUnavailable
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, TurnSave
from django_pydantic_agent.stores.writes import Ending, LedgerChange, RunWrite

if TYPE_CHECKING:
    from django_pydantic_agent.runs.recorder import Recorder


@dataclass(slots=True)
class CommitTimes:
    """How often a run was committed, the longest commit in seconds, the tries that failed, and the refusals."""

    count: int = 0
    longest: float = 0.0
    retries: int = 0
    failures: int = 0


@dataclass(slots=True, eq=False)
class Journal:
    """What one live run queues for writing.

    `append`, `write` and `end` only queue. `settled` waits until all of it is committed and raises why it never will
    be: `LeaseLost`, `StoreUnavailable` or `UnstorableWrite`. After the last two the run can still say how it ended.
    `run_id` is the id by which the ledger knows the attempt at the run.
    """

    recorder: "Recorder"
    store: RunStore
    log: LiveLog
    run: StoredRun
    key: int
    run_id: str
    epoch: int
    next_seq: int
    conversation: ConversationStore | None = None
    pending: RunWrite | None = None
    pending_bytes: int = 0
    logged_bytes: int = 0
    begun: bool = False
    refused_turns: list[TurnSave] = field(default_factory=list)
    failure: Exception | None = None
    is_dead: bool = False
    is_sealed: bool = False
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    in_flight: list[asyncio.Future[None]] | None = None
    times: CommitTimes = field(default_factory=CommitTimes)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that the run should wait too."""
        limit: int = agent_settings.PENDING_BYTES
        return self.pending_bytes > limit

    async def begin(self) -> None:
        """Write that a queued run has begun, before it has anything else to write, and wait until that is committed."""
        with self.recorder.lock:
            self._open_write()
        self.recorder.wake()
        await self.settled()

    def append(self, frame: bytes) -> None:
        """Queue a frame under the next seq."""
        with self.recorder.lock:
            self._open_write().frames.append(frame)
            self.next_seq += 1
            self.pending_bytes += len(frame)
            self.logged_bytes += len(frame)
        self.recorder.wake()

    def write(self, change: LedgerChange) -> None:
        """Queue a change of the ledger; dropped once the store has refused one, because rows would be missing."""
        with self.recorder.lock:
            if self.failure is None:
                self._open_write().ledger.append(change)
                self.pending_bytes += change.size
        self.recorder.wake()

    async def settled(self) -> None:
        """Wait until everything queued so far is committed."""
        if self.failure is None:
            await self.recorder.flush(self)
        if self.failure is not None:
            raise self.failure

    def save_turn(self, saved: TurnSave) -> None:
        """Queue what became of the run's part of its thread."""
        with self.recorder.lock:
            self._open_write().turns.append(saved)
            self.pending_bytes += saved.size
        self.recorder.wake()

    async def end(self, ending: Ending, saved: TurnSave | None = None) -> bool:
        """Write the end of the run, its terminal frame and turn, in one transaction, however long the store is away.

        False where the run goes on elsewhere or where the store refuses what it leaves; the latter is the `failure`
        then, and can be written as another end, without a turn.
        """
        with self.recorder.lock:
            write = self._open_write()
            if saved is None:
                # What the thread's store refuses keeps no run from ending.
                self.refused_turns, write.turns = [], []
            else:
                write.turns.append(saved)
            write.ending = ending
            self.next_seq += 1
        self.recorder.wake()
        await self._emptied()
        return self.log.ended

    def abandon(self) -> None:
        """Write nothing any more, because the run goes on elsewhere."""
        with self.recorder.lock:
            self.failure = LeaseLost("the run goes on elsewhere")
            self.is_dead = True

    async def seal(self) -> None:
        """Take nothing more, because the run is to go on elsewhere, and wait until what was queued is committed."""
        with self.recorder.lock:
            self.failure = self.failure or LeaseLost("the run is to go on elsewhere")
            self.is_sealed = True
        await self._emptied()

    def take(self) -> RunWrite | None:
        """Move what is queued into flight. The recorder's lock is held."""
        write, self.pending = self.pending, None
        self.pending_bytes = 0
        self.in_flight, self.waiters = self.waiters, []
        if write is not None and self.refused_turns:
            # What came later must be saved later.
            turns = [*self.refused_turns, *write.turns]
            self.refused_turns, write.turns = (turns, []) if write.ending is None else ([], turns)
        return write

    def refuse(self, write: RunWrite, error: Exception) -> None:
        """Leave out of a write what its store may have refused; the log must have no hole. The recorder's lock is held.

        First the ledger and the end, which is yet to be told then, next the turns, which wait for the end. Where there
        is nothing to leave out, nothing of the run is written any more.
        """
        self.failure = error
        if self.pending is not None:
            self.pending.ledger.clear()
        if isinstance(error, LeaseLost | StoreUnavailable) or not (write.ledger or write.ending or write.turns):
            self.is_dead = True
        elif write.ledger or write.ending:
            if write.ending is not None:
                self.next_seq -= 1
                if self.pending is not None:
                    # A tool that goes on has queued the row of its end behind this end of the run.
                    self.pending.first_seq -= 1
            write.ledger, write.ending, write.terminal = [], None, None
        else:
            self.refused_turns, write.turns = [*self.refused_turns, *write.turns], []

    def answer(self) -> list[asyncio.Future[None]]:
        """Return those who wait for what is in flight, which is so no longer. The recorder's lock is held."""
        answered, self.in_flight = self.in_flight or [], None
        return answered

    def give_up(self, error: Exception) -> list[asyncio.Future[None]]:
        """Return all who wait, because they need not; what is queued stays. The recorder's lock is held."""
        self.failure = self.failure or error
        answered, self.waiters = self.waiters, []
        if self.in_flight is not None:
            answered, self.in_flight = self.in_flight + answered, []
        return answered

    async def _emptied(self) -> None:
        """Wait until nothing is queued or in flight, also once the run has been given up."""
        while self.pending is not None or self.in_flight is not None:
            await self.recorder.flush(self)

    def _open_write(self) -> RunWrite:
        if self.pending is not None and not self.is_sealed:
            return self.pending
        write = RunWrite(
            key=self.key,
            epoch=self.epoch,
            first_seq=self.next_seq,
            begins=not self.begun,
            conversation=self.conversation,
        )
        # Nobody takes what is written to a sealed journal.
        if not self.is_sealed:
            self.pending, self.begun = write, True
            self.recorder.dirty.append(self)
        return write
