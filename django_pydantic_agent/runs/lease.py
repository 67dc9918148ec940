"""The leases of the runs that execute here: shown to other processes by beats, from a plain thread."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.loop_watch import LoopWatch
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.leases import Lease, RunLeases

logger = logging.getLogger(__name__)

CANCEL_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Held:
    store: RunStore
    run: int
    epoch: int
    cancel: Callable[[], None]
    lose: Callable[[], None]


class Beats:
    """One thread per process that beats for all its runs, and hears which of them are to stop.

    It shares nothing with the event loop or the recorder, so that only a process that is held up as a whole stops
    beating. While it beats it also looks at the loop.
    """

    def __init__(self) -> None:
        self.loop_watch: LoopWatch | None = None
        self._held: dict[tuple[int, int], _Held] = {}
        self._let_go: set[tuple[int, int, int]] = set()
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, store: RunStore, run: StoredRun, *, cancel: Callable[[], None], lose: Callable[[], None]) -> None:
        """Beat for a run from now on; `cancel` is called when it is to stop, `lose` when it goes on elsewhere.

        Both are called from the thread of the beats, `cancel` again and again. A store that no other
        process can see needs no beats.
        """
        if store.leases is None:
            return
        with self._lock:
            self._held[id(store), run.key] = _Held(store, run.key, run.epoch, cancel, lose)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agent-beats", daemon=True)
                self._thread.start()
        self._wanted.set()

    def release(self, store: RunStore, run: int, epoch: int) -> None:
        """Beat no longer for a run in this epoch."""
        with self._lock:
            held = self._held.get((id(store), run))
            if held is not None and held.epoch == epoch:
                del self._held[id(store), run]

    def let_go(self, store: RunStore, run: int, epoch: int) -> None:
        """Beat no longer for a run, which is to go on in another process."""
        with self._lock:
            self._let_go.add((id(store), run, epoch))
        self.release(store, run, epoch)

    def has(self, store: RunStore, lease: Lease) -> bool:
        """Return whether a run executes here, or has been let go of here."""
        with self._lock:
            return (id(store), lease.run) in self._held or (id(store), lease.run, lease.epoch) in self._let_go

    def stop(self) -> None:
        """End the thread, which may be in the middle of a beat."""
        self._stopping.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        next_beat = 0.0
        while not self._stopping.is_set():
            with self._lock:
                if not self._held:
                    self._wanted.clear()
            if not self._wanted.is_set():
                self._wanted.wait()
                # Whoever looks has not seen these runs yet.
                next_beat = time.monotonic() + agent_settings.BEAT_SECONDS
            self._stopping.wait(min(CANCEL_POLL_SECONDS, agent_settings.BEAT_SECONDS))
            if self.loop_watch is not None:
                self.loop_watch.look()
            is_due = time.monotonic() >= next_beat
            if self._serve(is_due) and is_due:
                next_beat = time.monotonic() + agent_settings.BEAT_SECONDS
            # A run that only waits, for hours maybe, holds no connection.
            release_connections()

    def _serve(self, is_due: bool) -> bool:
        """Beat where that is due, and look for runs that are to stop; False where the store was away."""
        with self._lock:
            by_store: dict[RunStore, dict[int, _Held]] = defaultdict(dict)
            for held in self._held.values():
                by_store[held.store][held.run] = held
        try:
            for store, by_run in by_store.items():
                self._serve_store(store.leases, by_run, is_due)
        except Exception:
            logger.warning("The leases of runs could not be shown; it is tried again.", exc_info=True)
            return False
        return True

    def _serve_store(self, leases: RunLeases | None, by_run: dict[int, _Held], is_due: bool) -> None:
        if leases is None:
            return
        for run in leases.cancelled(by_run):
            by_run[run].cancel()
        if is_due:
            for run in leases.beat({held.run: held.epoch for held in by_run.values()}):
                held = by_run[run]
                logger.warning("Run %d goes on elsewhere or is gone; it is stopped here.", run)
                self.release(held.store, run, held.epoch)
                held.lose()
