"""Who watches the runs that stop when nobody does."""

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.stores.base import RunStore, StoredRun

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
RETURN_SECONDS = 10.0
"""How long a run waits at least for its first viewer, and for one that was sent away."""

RunKey = tuple[int, int]
"""A store by its `id`, and the key of one of its runs."""


@dataclass(slots=True, kw_only=True)
class _Guarded:
    """A run that executes here and is cancelled once both moments have passed and nobody watches it."""

    store: RunStore
    run: int
    epoch: int
    seconds: float
    cancel: Callable[[], None]
    due: float
    due_elsewhere: float = 0.0
    signs: int = 0


class Viewers:
    """Counts the viewers of runs that stop when nobody watches, and stops those that execute here.

    A process whose viewers watch a run that executes elsewhere shows that every BEAT_SECONDS in the run's row; the
    process that executes it sees whether the count has changed, and takes those viewers as gone after LEASE_SECONDS by
    its own clock. So the death of either process leaves nothing behind, and runs that go on to their end cost nothing.
    """

    def __init__(self) -> None:
        self._guarded: dict[RunKey, _Guarded] = {}
        self._present: Counter[RunKey] = Counter()
        self._stores: dict[int, RunStore] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._hurry = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def guard(self, store: RunStore, run: StoredRun, *, cancel: Callable[[], None]) -> None:
        """Have `cancel` called, from another thread and maybe again, once nobody watches a run for as long as it says.

        The run waits at least RETURN_SECONDS for its first viewer.
        """
        if run.cancel_after is None:
            return
        with self._lock:
            self._guarded[id(store), run.key] = _Guarded(
                store=store,
                run=run.key,
                epoch=run.epoch,
                seconds=run.cancel_after,
                cancel=cancel,
                due=time.monotonic() + max(run.cancel_after, RETURN_SECONDS),
            )
            self._want()

    def release(self, store: RunStore, run: int, epoch: int) -> None:
        """Leave a run alone that, in this epoch, has ended or goes on elsewhere."""
        with self._lock:
            guarded = self._guarded.get((id(store), run))
            if guarded is not None and guarded.epoch == epoch:
                del self._guarded[id(store), run]

    def enter(self, store: RunStore, run: int) -> None:
        """Note that a viewer has come."""
        key = (id(store), run)
        with self._lock:
            self._present[key] += 1
            self._stores[id(store)] = store
            if (guarded := self._guarded.get(key)) is not None:
                guarded.due = time.monotonic() + guarded.seconds
            elif self._present[key] == 1:
                self._hurry.set()
            self._want()

    def leave(self, store: RunStore, run: int, *, returns: bool) -> None:
        """Note that a viewer has gone; one that `returns` was sent away and is waited for."""
        key = (id(store), run)
        with self._lock:
            self._present[key] -= 1
            if not self._present[key]:
                del self._present[key]
            if (guarded := self._guarded.get(key)) is not None:
                patience = max(guarded.seconds, RETURN_SECONDS) if returns else guarded.seconds
                guarded.due = max(guarded.due, time.monotonic() + patience)

    def stop(self) -> None:
        """End the thread, which may be in the middle of a look."""
        self._stopping.set()
        self._hurry.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _want(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agent-viewers", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _run(self) -> None:
        next_sign = 0.0
        while not self._stopping.is_set():
            with self._lock:
                if not self._guarded and not self._present:
                    self._wanted.clear()
            self._wanted.wait()
            if self._hurry.is_set() or time.monotonic() >= next_sign:
                self._hurry.clear()
                if self._show():
                    next_sign = time.monotonic() + agent_settings.BEAT_SECONDS
            self._look()
            release_connections()
            self._hurry.wait(min(LOOK_SECONDS, agent_settings.BEAT_SECONDS))

    def _show(self) -> bool:
        """Show other processes what is watched here and executes there; False where the store was away."""
        with self._lock:
            elsewhere: dict[int, list[int]] = defaultdict(list)
            for store, run in self._present.keys() - self._guarded.keys():
                elsewhere[store].append(run)
        try:
            for store, runs in elsewhere.items():
                if (leases := self._stores[store].leases) is not None:
                    leases.show_viewers(runs)
        except Exception:
            logger.warning("The viewers of runs could not be shown; it is tried again.", exc_info=True)
            return False
        return True

    def _look(self) -> None:
        """Learn who watches the runs that execute here, and cancel those that nobody has watched for long enough."""
        with self._lock:
            by_store: dict[RunStore, list[_Guarded]] = defaultdict(list)
            for guarded in self._guarded.values():
                by_store[guarded.store].append(guarded)
        for store, runs in by_store.items():
            self._look_elsewhere(store, runs)
        now = time.monotonic()
        with self._lock:
            for key in self._guarded.keys() & self._present.keys():
                guarded = self._guarded[key]
                guarded.due = max(guarded.due, now + guarded.seconds)
            unwatched = [
                guarded
                for key, guarded in self._guarded.items()
                if key not in self._present and now >= max(guarded.due, guarded.due_elsewhere)
            ]
        for guarded in unwatched:
            logger.info("Run %d is cancelled, because nobody watches it any more.", guarded.run)
            guarded.cancel()

    @staticmethod
    def _look_elsewhere(store: RunStore, runs: Collection[_Guarded]) -> None:
        if store.leases is None:
            return
        signs: Mapping[int, int] | None = None
        try:
            signs = store.leases.viewer_signs([guarded.run for guarded in runs])
        except Exception:
            logger.warning("The viewers of runs could not be read; they count as there.", exc_info=True)
        now = time.monotonic()
        for guarded in runs:
            seen = guarded.signs if signs is None else signs.get(guarded.run, guarded.signs)
            if signs is None or seen != guarded.signs:
                guarded.due_elsewhere = now + max(guarded.seconds, agent_settings.LEASE_SECONDS)
                guarded.signs = seen


class Viewer:
    """One viewer; `sent_away` says that it did not leave by itself, `misses_rest` that what comes next is not kept."""

    def __init__(self, viewers: Viewers) -> None:
        self._viewers = viewers
        self.sent_away = False
        self.misses_rest = False

    @contextmanager
    def watches(self, store: RunStore, run: StoredRun) -> Generator[None]:
        """Count the viewer while the block lasts, where the run is one that stops when nobody watches."""
        if run.cancel_after is None:
            yield
            return
        self._viewers.enter(store, run.key)
        try:
            yield
        finally:
            self._viewers.leave(store, run.key, returns=self.sent_away)
