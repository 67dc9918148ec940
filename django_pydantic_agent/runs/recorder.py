"""The only writer of live runs: what they queue is committed in groups, then shown to viewers."""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.exceptions import LeaseLost, StoreUnavailable
from django_pydantic_agent.runs.announcer import Announcer, InlineAnnouncer
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import Ending, LedgerChange, RunStore, RunWrite, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, TurnSave

logger = logging.getLogger(__name__)

# The pause after a commit, in seconds, and as a multiple of the processor time that the commit took, in a process that
# idles and in one that is busy: short while there is time, so that viewers wait little; long when there is none, so
# that writing takes little from the agents.
SHORTEST_PAUSE = 0.004
IDLE_PAUSE_PER_COMMIT = 5.0
BUSY_PAUSE_PER_COMMIT = 40.0
LONGEST_PAUSE = 0.1
# The time over which it is judged how busy the process is, in seconds.
LOAD_SECONDS = 0.02

FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0
IDLE_SECONDS = 5.0


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


class Pace:
    """How long to pause between two commits, by how busy the process is."""

    def __init__(self) -> None:
        self._load = 0.0
        self._wall, self._busy = time.monotonic(), time.process_time()

    def pause_after(self, commit_seconds: float) -> float:
        """Return the pause in seconds after a commit that took `commit_seconds` of processor time."""
        wall, busy = time.monotonic(), time.process_time()
        elapsed = wall - self._wall
        if elapsed > 0:
            load = (busy - self._busy) / elapsed
            self._load += (min(load, 1.0) - self._load) * min(elapsed / LOAD_SECONDS, 1.0)
        self._wall, self._busy = wall, busy
        # The cube, so that a process that is half busy still is quick.
        per_commit = IDLE_PAUSE_PER_COMMIT + (BUSY_PAUSE_PER_COMMIT - IDLE_PAUSE_PER_COMMIT) * self._load**3
        return min(max(SHORTEST_PAUSE, commit_seconds * per_commit), LONGEST_PAUSE)


@dataclass(slots=True, eq=False)
class _Group:
    """What the runs of one store have queued for one commit; `behind` are those that queue more while it is tried."""

    store: RunStore
    deadline: float
    pairs: list[tuple[Journal, RunWrite]] = field(default_factory=list)
    behind: list[Journal] = field(default_factory=list)
    next_try: float = 0.0
    retry: float = FIRST_RETRY


class Recorder:
    """Commits what the journals of one process queue, those of a store in one transaction, from a thread of its own."""

    def __init__(self, announcer: Announcer | None = None) -> None:
        self.announcer = announcer or Announcer()
        self.lock = threading.Lock()
        self.dirty: list[Journal] = []
        self._away: dict[int, _Group] = {}
        self._work = threading.Event()
        self._urgent = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def open(
        self, store: RunStore, run: StoredRun, log: LiveLog, conversation: ConversationStore | None = None
    ) -> Journal:
        """Return the journal of a run that this process executes from now on."""
        return Journal(
            recorder=self,
            store=store,
            log=log,
            run=run,
            key=run.key,
            run_id=run.ledger_ids[0],
            epoch=run.epoch,
            next_seq=run.last_seq + 1,
            conversation=conversation,
            begun=run.status is RunStatus.RUNNING,
        )

    def wake(self) -> None:
        """Have the thread look for work, starting it on first use."""
        if not self._work.is_set():
            self._work.set()
            if self._thread is None:
                self._start()

    async def flush(self, journal: Journal) -> None:
        """Wait until what `journal` queued so far is committed or given up."""
        with self.lock:
            if journal.pending is not None:
                waiters = journal.waiters
            elif journal.in_flight is not None:
                waiters = journal.in_flight
            else:
                return
            future = asyncio.get_running_loop().create_future()
            waiters.append(future)
        self._urgent.set()
        await future

    def stop(self) -> None:
        """Commit what is queued and end the thread."""
        self._stopping = True
        self._urgent.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self.lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agent-recorder", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pace = Pace()
        pause = 0.0
        while True:
            if not self._work.wait(self._idle_seconds()) and not self._away:
                release_connections()
                continue
            if pause and not self._stopping:
                self._urgent.wait(pause)
            started = time.thread_time()
            if self._commit_queued():
                pause = pace.pause_after(time.thread_time() - started)
            elif self._stopping:
                break
            else:
                pause = 0.0
        release_connections()

    def _idle_seconds(self) -> float:
        """Return for how long there is nothing to do, unless something is queued."""
        if not self._away:
            return IDLE_SECONDS
        return max(min(group.next_try for group in self._away.values()) - time.monotonic(), 0.0)

    def _commit_queued(self) -> bool:
        """Commit everything that is queued and due; False where nothing was."""
        now = time.monotonic()
        due = [group for group in self._away.values() if group.next_try <= now or self._stopping]
        groups = [*due, *self._take_queued()]
        for group in sorted(groups, key=lambda group: group.store.durable):
            self._commit_group(group)
        return bool(groups)

    def _take_queued(self) -> Collection[_Group]:
        """Move what is queued into flight, but for what has to wait behind a group whose store is away."""
        deadline = time.monotonic() + agent_settings.STORE_PATIENCE_SECONDS
        groups: dict[int, _Group] = {}
        with self.lock:
            journals, self.dirty = self.dirty, []
            self._urgent.clear()
            if not journals and not self._stopping:
                self._work.clear()
            for journal in sorted(journals, key=lambda journal: journal.key):
                store = id(journal.store)
                if store in self._away:
                    self._away[store].behind.append(journal)
                elif (write := journal.take()) is not None:
                    group = groups.setdefault(store, _Group(journal.store, deadline))
                    group.pairs.append((journal, write))
        return groups.values()

    def _commit_group(self, group: _Group) -> None:
        """Commit what the runs of one store queued, or put it off because the store is away."""
        alive = [pair for pair in group.pairs if not pair[0].is_dead]
        writes = [write for _, write in alive]
        started = time.monotonic()
        results: Sequence[Exception | None]
        try:
            results = group.store.commit(writes) if writes else []
        except StoreUnavailable as error:
            release_connections()
            for journal, _ in alive:
                journal.times.retries += 1
            if not self._stopping:
                self._put_off(group, error)
                return
            logger.exception("The store is unavailable while the process ends; what was queued is lost.")
            results = [error] * len(alive)
        except Exception as error:
            logger.exception("The store failed where it should have said why.")
            results = [error] * len(alive)
        took = time.monotonic() - started
        for (journal, write), result in zip(alive, results, strict=True):
            journal.times.count += 1
            journal.times.longest = max(journal.times.longest, took)
            self._settle(journal, write, result)
        refused = [
            (journal, write)
            for (journal, write), result in zip(alive, results, strict=True)
            if result is not None and not journal.is_dead
        ]
        with self.lock:
            settled = {journal for journal, _ in group.pairs} - {journal for journal, _ in refused}
            answered = [future for journal in settled for future in journal.answer()]
            if not refused and self._away.pop(id(group.store), None) is not None:
                self.dirty += group.behind
                self._work.set()
        _wake(answered)
        if refused:
            group.pairs = refused
            self._commit_group(group)

    def _put_off(self, group: _Group, error: StoreUnavailable) -> None:
        """Have a group tried again later; after the patience its runs end and their viewers go, and it is still tried.

        What the runs queued is kept and written once it can be.
        """
        self._away[id(group.store)] = group
        now = time.monotonic()
        if now > group.deadline:
            journals = [*(journal for journal, _ in group.pairs), *group.behind]
            with self.lock:
                answered = [future for journal in journals for future in journal.give_up(error)]
            for journal in journals:
                journal.log.close()
            _wake(answered)
        logger.warning("The store is unavailable; the commit is tried again in %.2f seconds.", group.retry)
        group.next_try = now + group.retry
        group.retry = min(group.retry * 2, LONGEST_RETRY)

    def _settle(self, journal: Journal, write: RunWrite, error: Exception | None) -> None:
        """Show and announce what was committed, or note why it was not."""
        if error is not None:
            journal.times.failures += 1
            logger.error("Run %r cannot be saved any more.", journal.run_id, exc_info=error)
            with self.lock:
                journal.refuse(write, error)
            return
        if write.all_frames:
            journal.log.publish(write.first_seq, write.all_frames, write.ending.status if write.ending else None)
        self.announcer.committed(journal.run, write, store=journal.store)


class InlineRecorder(Recorder):
    """Commits in the thread and on the connection of whoever started the run, whenever the run waits."""

    def __init__(self) -> None:
        super().__init__(InlineAnnouncer())
        self._stopping = True

    def wake(self) -> None:
        pass

    async def flush(self, journal: Journal) -> None:
        await sync_to_async(self._commit_queued)()


def _wake(futures: Sequence[asyncio.Future[None]]) -> None:
    """Wake those who wait, with one call into each of their loops."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = defaultdict(list)
    for future in futures:
        by_loop[future.get_loop()].append(future)
    for loop, waiting in by_loop.items():
        loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
