"""What one process needs to follow any run or thread: the logs of its own runs, and those of others that it watches."""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from django_pydantic_agent.runs.follow import Follower
from django_pydantic_agent.runs.follow_thread import Part, ThreadFollower
from django_pydantic_agent.runs.live_log import END, LiveLog
from django_pydantic_agent.runs.viewers import RunKey, Viewer, Viewers
from django_pydantic_agent.runs.watcher import Watcher
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, ThreadName

if TYPE_CHECKING:
    from django_pydantic_agent.log.preamble import Preamble
    from django_pydantic_agent.runs.execution import Execution

READERS = 4


class Following:
    """The part of the engine that serves viewers: `_live` are the runs that execute here, `_recent` those that did."""

    def __init__(self) -> None:
        self.watcher = Watcher()
        self.viewers = Viewers()
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="agent-log-reader")
        self._lock = threading.Lock()
        self._live: dict[RunKey, Execution] = {}
        self._recent: OrderedDict[RunKey, LiveLog] = OrderedDict()

    def follow(
        self,
        run: StoredRun,
        *,
        store: RunStore,
        after: int = 0,
        preamble: "Preamble | None" = None,
        idle_seconds: float = 15.0,
        viewer: Viewer | None = None,
    ) -> Follower:
        """Return what follows `run` for a viewer, a new one by default, from behind seq `after`, or from `preamble`."""
        log = self._log(run, store)
        return Follower(
            run=run,
            log=log,
            viewer=viewer or Viewer(self.viewers),
            readers=log.readers or self._readers,
            after=after if preamble is None else preamble.seq,
            preamble=preamble,
            idle_seconds=idle_seconds,
        )

    def follow_thread(
        self,
        thread: ThreadName,
        *,
        conversation: ConversationStore,
        store: RunStore,
        run: StoredRun | None,
        after: int = 0,
        preamble: "Preamble | None" = None,
        idle_seconds: float = 15.0,
    ) -> ThreadFollower:
        """Return what follows `run`, as `follow` does, and the runs that are accepted behind it in `thread`."""
        viewer = Viewer(self.viewers)

        def follow(run: StoredRun, preamble: "Preamble | None", after: int = 0) -> Follower:
            return self.follow(
                run, store=store, after=after, preamble=preamble, idle_seconds=idle_seconds, viewer=viewer
            )

        first = Part(key=0)
        if run is not None:
            first = Part(key=run.key, run_id=run.run_id, follower=follow(run, preamble, after))
        return ThreadFollower(
            thread=self.watcher.watch_thread(conversation, thread, newest=first.key),
            store=store,
            follow=follow,
            viewer=viewer,
            readers=self._readers,
            first=first,
            idle_seconds=idle_seconds,
        )

    def wait_ended(self, run: StoredRun, *, store: RunStore, seconds: float) -> None:
        """Wait until `run` has ended, for `seconds` at the longest."""
        self._log(run, store).wait(END, seconds)

    def _log(self, run: StoredRun, store: RunStore) -> LiveLog:
        key = (id(store), run.key)
        with self._lock:
            execution = self._live.get(key)
            if execution is not None:
                return execution.log
            if key in self._recent:
                return self._recent[key]
        if not run.status.is_live:
            return LiveLog(store, run.key, last_seq=run.last_seq, status=run.status)
        return self.watcher.watch(store, run)
