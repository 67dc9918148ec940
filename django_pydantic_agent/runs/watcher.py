"""News of what is followed in this process and happens in another."""

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.live_thread import LiveThread
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, ThreadName

logger = logging.getLogger(__name__)


class Watcher:
    """One thread per process that asks the stores, in one query each, how far every watched run and thread has come.

    They are watched for as long as somebody holds them.
    """

    def __init__(self) -> None:
        # A run that was taken over here, and lost again, has a log from before it and one of its own.
        self._logs: WeakSet[LiveLog] = WeakSet()
        self._threads: WeakValueDictionary[tuple[int, ThreadName], LiveThread] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._rung = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def watch(self, store: RunStore, run: StoredRun) -> LiveLog:
        """Return the log of a run that executes elsewhere, shared by all its viewers here."""
        with self._lock:
            log = next((log for log in self._logs if log.store is store and log.key == run.key), None)
            if log is None:
                log = LiveLog(store, run.key, last_seq=run.last_seq, status=run.status)
                self._watch(log)
        return log

    def adopt(self, log: LiveLog) -> None:
        """Go on with the log of a run that executed here and goes on elsewhere."""
        with self._lock:
            self._watch(log)

    def watch_thread(self, store: ConversationStore, key: ThreadName, *, newest: int) -> LiveThread:
        """Return a thread whose newest run, as far as is known, is `newest`; shared by all its viewers here."""
        with self._lock:
            thread = self._threads.get((id(store), key))
            if thread is None or thread.ended:
                thread = self._threads[id(store), key] = LiveThread(store, key, newest=newest)
                self._begin(thread)
        return thread

    def look_soon(self) -> None:
        """Look at once where threads are watched, one of which may have got a run."""
        if self._threads:
            self._rung.set()

    def close(self) -> None:
        """Let the viewers of threads and of runs that execute elsewhere go, those that come later too."""
        with self._lock:
            self._is_closed = True
            for one in [*self._logs, *self._threads.values()]:
                one.close()

    def stop(self) -> None:
        """End the thread, which may be in the middle of a look."""
        self._stopping.set()
        self._wanted.set()
        self._rung.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, log: LiveLog) -> None:
        self._logs.add(log)
        self._begin(log)

    def _begin(self, one: LiveLog | LiveThread) -> None:
        if self._is_closed:
            one.close()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agent-watcher", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                followed: list[LiveLog | LiveThread] = [*self._logs, *self._threads.values()]
                watched = [one for one in followed if not one.ended]
                del followed
                if not watched:
                    self._wanted.clear()
            if watched:
                self._look(watched)
                # Held over the pause, it would be watched for ever.
                del watched
                self._rung.wait(agent_settings.POLL_SECONDS)
                self._rung.clear()
            else:
                release_connections()
                self._wanted.wait()
        release_connections()

    @staticmethod
    def _look(watched: Sequence[LiveLog | LiveThread]) -> None:
        by_store: dict[Any, dict[Any, list[LiveLog | LiveThread]]] = defaultdict(lambda: defaultdict(list))
        for one in watched:
            by_store[one.store][one.key].append(one)
        for store, known in by_store.items():
            try:
                progress = store.progress(known)
            except Exception:
                logger.warning("The watcher could not read the store; it looks again.", exc_info=True)
                release_connections()
                continue
            for key, those in known.items():
                for one in those:
                    one.learn(progress.get(key))
