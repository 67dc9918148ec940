"""What a project is told of its runs: signals and audit records, from a thread of their own."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from django_pydantic_agent import signals
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.states import Decision, Question, RunStatus
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.writes import RunWrite

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""What may wait for slow receivers; what comes after that is dropped, so that they cost no memory without end."""
STOP_SECONDS = 5.0

Job = Callable[[], Any]

_ENDS = {
    RunStatus.FINISHED: signals.run_finished,
    RunStatus.INTERRUPTED: signals.run_finished,
    RunStatus.FAILED: signals.run_failed,
    RunStatus.CANCELLED: signals.run_cancelled,
    RunStatus.ORPHANED: signals.run_orphaned,
}


class Announcer:
    """Calls what wants to hear of runs, one after the other, in the order in which it happened.

    Nobody waits for it: neither a run, nor the recorder, nor a request.
    """

    def __init__(self) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        """Have `job` called; safe from any thread, and returns at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agent-announcer", daemon=True)
                self._thread.start()
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            logger.error("A signal or an audit record is dropped: %d wait for slow receivers.", MAX_WAITING)

    async def tell(self, job: Job) -> None:
        """Do what `put` does, from an event loop."""
        self.put(job)

    def committed(self, run: StoredRun, write: RunWrite, *, store: RunStore) -> None:
        """Send what a committed write tells of its run."""
        for signal, about in _told(run, write):
            self._send(signal, about)
        if write.ending is not None and _has_receivers(signals.effect_unresolved):
            self.put(partial(_send_unresolved, run, store))

    def decided(self, run: StoredRun, decisions: Mapping[str, Decision]) -> None:
        """Send what was decided and committed, by the ids of interrupts; `run` has decided, or has asked."""
        for interrupt_id, decision in decisions.items():
            about = {"interrupt_id": interrupt_id, "decision": decision.value}
            self._send(signals.approval_decided, _ids(run) | about)

    def stop(self) -> None:
        """Call what waits, for a few seconds at the longest, and end the thread."""
        if self._thread is None:
            return
        try:
            self._jobs.put(None, timeout=STOP_SECONDS)
        except queue.Full:
            logger.error("Signals and audit records are lost: their receivers are too slow.")
        else:
            self._thread.join(STOP_SECONDS)

    def _send(self, signal: Signal, about: dict[str, Any]) -> None:
        if _has_receivers(signal):
            self.put(partial(signal.send_robust, StoredRun, **about))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            _call(job)
            del job
            release_connections()


class InlineAnnouncer(Announcer):
    """Calls at once, in the thread and on the connection of whoever started the run."""

    def put(self, job: Job) -> None:
        _call(job)

    async def tell(self, job: Job) -> None:
        await sync_to_async(self.put)(job)


def _call(job: Job) -> None:
    try:
        job()
    except Exception:
        logger.exception("What was to be told of a run could not be told.")


def _has_receivers(signal: Signal) -> bool:
    return signal.has_listeners(StoredRun)


def _told(run: StoredRun, write: RunWrite) -> Iterator[tuple[Signal, dict[str, Any]]]:
    """Yield the signals that a write causes, and their arguments."""
    ids, ending = _ids(run), write.ending
    if write.begins and ending is None:
        yield signals.run_started, ids
    if write.turns:
        yield signals.thread_saved, ids
    if ending is None:
        return
    for interrupt in () if write.asks_nobody else ending.interrupts:
        asked = {
            "interrupt_id": interrupt["id"],
            "reason": interrupt.get("reason", Question.TOOL_CALL),
            "tool_call_id": interrupt.get("toolCallId", ""),
        }
        yield signals.approval_requested, ids | asked
    end = _ENDS[ending.status]
    if end is signals.run_finished:
        yield end, ids | {"status": ending.status.value}
    elif ending.error is not None:
        yield end, ids | {"code": ending.error["code"]}
    else:
        yield end, ids


def _ids(run: StoredRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "owner": run.owner and run.owner.key,
        "server": run.server,
        "attempt": run.attempt,
    }


def _send_unresolved(run: StoredRun, store: RunStore) -> None:
    for call in store.unresolved_calls(run.key):
        about = {"tool_call_id": call.tool_call_id, "tool": call.tool, "reason": call.reason}
        signals.effect_unresolved.send_robust(StoredRun, **_ids(run), **about)
