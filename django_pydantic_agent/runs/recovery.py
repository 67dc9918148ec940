"""Runs whose process is gone: found by their leases, ended with an account of them, or begun after all."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunStore
from django_pydantic_agent.stores.leases import RELEASED, Lease, Orphan, RunLeases

if TYPE_CHECKING:
    from django_pydantic_agent.runs.engine import Engine

logger = logging.getLogger(__name__)

LOOKS_PER_LEASE = 4


class Recovery:
    """Looks at the leases of all live runs and takes over those that nobody beats for.

    A run is taken over when looks that lie LEASE_SECONDS apart on this process's own clock have found it unchanged, and
    all looks between them too; a look that fails starts over. One that its process has let go of is taken over at
    once. Of those who try at once, one wins. `ended`, `begun` and `resumed` count what was done.
    """

    def __init__(self, engine: "Engine", store: RunStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self.ended = 0
        self.begun = 0
        self.resumed = 0
        self._seen: dict[Lease, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-recovery", daemon=True)

    def start(self) -> None:
        """Look from a thread of its own until `stop` is called."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may be in the middle of a look."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Look once and deal with the runs that are orphans by now."""
        leases = self._store.leases
        if leases is None:
            return
        try:
            live = leases.live()
        except Exception:
            logger.warning("The leases of runs could not be read; the looks start over.", exc_info=True)
            self._seen.clear()
            return
        now = self._clock()
        # What executes here is never an orphan, and stays so for other processes as long as this one beats.
        others = [lease for lease in live if not self._engine.beats.has(self._store, lease)]
        self._seen = {lease: self._seen.get(lease, now) for lease in others}
        for lease, since in list(self._seen.items()):
            if lease.beat == RELEASED or now - since >= agent_settings.LEASE_SECONDS:
                del self._seen[lease]
                self._recover(leases, lease)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.look()
            release_connections()
            self._stopping.wait(agent_settings.LEASE_SECONDS / LOOKS_PER_LEASE)

    def _recover(self, leases: RunLeases, lease: Lease) -> None:
        try:
            orphan = leases.take_over(lease)
            if orphan is not None:
                self._deal_with(orphan)
        except Exception:
            # Nobody beats for it, so it is found again.
            logger.exception("Run %d could not be recovered.", lease.run)

    def _deal_with(self, orphan: Orphan) -> None:
        from django_pydantic_agent.runs.orphans import end, go_on
        from django_pydantic_agent.runs.outcome import cancelled, orphaned

        run, beats = orphan.run, self._engine.beats
        if run.status is RunStatus.QUEUED and not orphan.cancel_requested:
            logger.warning("Run %r was never begun; it is begun now.", run.run_id)
            go_on(orphan, self._store, self._engine)
            self.begun += 1
            return
        if (again := self._next_attempt(orphan)) is not None:
            logger.warning("The process of run %r is gone; attempt %d begins.", run.run_id, again.run.attempt)
            go_on(again, self._store, self._engine)
            self.resumed += 1
            return
        logger.warning("The process of run %r is gone; the run is ended.", run.run_id)
        beats.hold(self._store, run, cancel=_nothing, lose=_nothing)
        try:
            outcome = cancelled(run) if orphan.cancel_requested else orphaned(orphan.unresolved)
            self.ended += end(orphan, self._store, outcome, announcer=self._engine.announcer)
        finally:
            beats.release(self._store, run.key, run.epoch)

    def _next_attempt(self, orphan: Orphan) -> Orphan | None:
        """Return a run that is to be resumed as its next attempt, None where it is to be ended."""
        leases = self._store.leases
        if leases is None or orphan.cancel_requested or orphan.run.attempt >= agent_settings.MAX_ATTEMPTS:
            return None
        try:
            if find_mount(orphan.run.server).config.on_orphan != "resume":
                return None
        except LookupError:
            return None
        run = leases.begin_attempt(orphan.run)
        return None if run is None else replace(orphan, run=run)


def _nothing() -> None:
    """Leave a run alone that is being ended anyway; the epoch decides who has ended it."""
