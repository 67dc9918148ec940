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
from django_pydantic_agent.runs.commit_pace import Pace
from django_pydantic_agent.runs.journal import Journal
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore
from django_pydantic_agent.stores.writes import RunWrite

logger = logging.getLogger(__name__)

FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0
IDLE_SECONDS = 5.0


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

    is_patient = True
    """Whether a commit is tried again while the store is away."""

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
            if self.is_patient and not self._stopping:
                self._put_off(group, error)
                return
            logger.exception("The store is unavailable and nobody can wait for it; what was queued is lost.")
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
            if isinstance(error, LeaseLost):
                logger.warning("Run %r is not written here any more: %s.", journal.run_id, error)
            else:
                logger.error("Run %r cannot be saved any more.", journal.run_id, exc_info=error)
            with self.lock:
                journal.refuse(write, error)
            return
        if write.all_frames:
            journal.log.publish(write.first_seq, write.all_frames, write.ending.status if write.ending else None)
        self.announcer.committed(journal.run, write, store=journal.store)


class InlineRecorder(Recorder):
    """Commits in the thread and on the connection of whoever started the run, whenever the run waits."""

    is_patient = False

    def __init__(self) -> None:
        super().__init__(InlineAnnouncer())

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
