"""News of runs that are followed in this process and execute in another."""

import logging
import threading
from collections import defaultdict
from weakref import WeakValueDictionary

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.stores.base import RunStore, StoredRun

logger = logging.getLogger(__name__)


class Watcher:
    """One thread per process that asks the store, in one query, how far every watched run has come.

    A run is watched for as long as somebody holds its log.
    """

    def __init__(self) -> None:
        self._logs: WeakValueDictionary[tuple[int, int], LiveLog] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, store: RunStore, run: StoredRun) -> LiveLog:
        """Return the log of a run that executes elsewhere, shared by all its viewers here."""
        with self._lock:
            log = self._logs.get((id(store), run.key))
            if log is None:
                log = LiveLog(store, run.key, last_seq=run.last_seq, status=run.status)
                self._watch(log)
        return log

    def adopt(self, log: LiveLog) -> None:
        """Go on with the log of a run that executed here and goes on elsewhere."""
        with self._lock:
            self._watch(log)

    def stop(self) -> None:
        """End the thread, which may be in the middle of a look."""
        self._stopping.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, log: LiveLog) -> None:
        self._logs[id(log.store), log.key] = log
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agent-watcher", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                logs = [log for log in self._logs.values() if not log.ended]
                if not logs:
                    self._wanted.clear()
            if logs:
                self._look(logs)
                # Held over the pause, a log would be watched for ever.
                del logs
                self._stopping.wait(agent_settings.POLL_SECONDS)
            else:
                release_connections()
                self._wanted.wait()
        release_connections()

    @staticmethod
    def _look(logs: list[LiveLog]) -> None:
        by_store: dict[RunStore, dict[int, LiveLog]] = defaultdict(dict)
        for log in logs:
            by_store[log.store][log.key] = log
        for store, watched in by_store.items():
            try:
                progress = store.progress(watched)
            except Exception:
                logger.warning("The watcher could not read the store; it looks again.", exc_info=True)
                release_connections()
                continue
            for key, log in watched.items():
                if key in progress:
                    log.advance(*progress[key])
                else:
                    log.vanish()
