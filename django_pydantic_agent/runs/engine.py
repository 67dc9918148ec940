"""The engine: one per process, it owns the runs that execute here and what is needed to follow any run."""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import RunNotFound, ShuttingDown
from django_pydantic_agent.runs.announcer import Announcer
from django_pydantic_agent.runs.executors.base import get_executor
from django_pydantic_agent.runs.following import READERS, Following
from django_pydantic_agent.runs.lease import Beats
from django_pydantic_agent.runs.live_log import END
from django_pydantic_agent.runs.loop_watch import LoopWatch
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.recorder import Recorder
from django_pydantic_agent.runs.recovery import Recovery
from django_pydantic_agent.runs.states import Decision
from django_pydantic_agent.stores import durable_store
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore

if TYPE_CHECKING:
    from django_pydantic_agent.agents.tools import ToolThreads
    from django_pydantic_agent.runs.execution import Execution

logger = logging.getLogger(__name__)

RECENT_LOGS = 16
LOOK_SECONDS = 0.5
"""How often what waits without news looks again."""
AHEAD_SECONDS = 30.0
"""How long a run waits for news of the end of the one ahead before it asks for it."""
CANCEL_SECONDS = 5.0


class Engine(Following):
    """Starts runs, lets viewers follow them, cancels them, and takes over those whose process is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.announcer = Announcer()
        self.recorder = Recorder(self.announcer)
        self.beats = Beats()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tool_threads: ToolThreads | None = None
        self._run_readers: ToolThreads | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._recovery: Recovery | None = None
        self._is_shutting_down = False
        self._all_ended = threading.Condition(self._lock)

    def start(self, plan: RunPlan) -> StoredRun:
        """Write a run with its first frame and have it execute once that is committed.

        Call it from synchronous code, outside an event loop. Raises `RunIdTaken`, whose `run` is the owner's earlier
        run of this id, `ShuttingDown` where this process begins no more runs, and `WrongTestCase` where the executor
        could not see the run.
        """
        from django_pydantic_agent.runs.opening import new_run

        if self._is_shutting_down:
            raise ShuttingDown
        executor = get_executor(plan.config.executor)
        executor.check(plan.store)
        run = executor.start(self, plan, new_run(plan))
        decisions = {answer.id: answer.decision for answer in plan.answers}
        for key in plan.gives_up:
            # Who decides at the same moment may have been first, and the run may be forgotten by now.
            with suppress(RunNotFound):
                asked = plan.store.interrupts(key)
                decisions |= {
                    interrupt.id: interrupt.decision for interrupt in asked if interrupt.decided_by == run.key
                }
        self.announcer.decided(run, decisions)
        return run

    def cancel(self, run: int, *, store: RunStore) -> bool:
        """Ask the run of this key to stop; False where it does not execute in this process."""
        with self._lock:
            execution = self._live.get((id(store), run))
        if execution is None or execution.log.ended:
            return False
        execution.cancel()
        return True

    def request_cancel(self, run: int, *, store: RunStore) -> bool:
        """Ask the run of this key to stop, in whatever process it executes; False where it has ended or is gone.

        Another process hears of it within a second. A run that nobody executes any more ends as cancelled too.
        """
        if store.leases is None:
            return self.cancel(run, store=store)
        is_live = store.leases.request_cancel(run)
        return self.cancel(run, store=store) or is_live

    def cancel_asked(self, run: StoredRun, *, store: RunStore, conversation: ConversationStore | None) -> None:
        """Cancel what a run has asked and nobody has decided; `conversation` counts where its mount has none."""
        with suppress(LookupError):
            conversation = find_mount(run.server).conversation or conversation
        given_up = store.give_up(run.key, Decision.CANCELLED, conversation=conversation)
        self.announcer.decided(run, dict.fromkeys(given_up, Decision.CANCELLED))

    def watch_leases(self) -> None:
        """Look for runs whose process is gone, from now on until this process ends; calls after the first do nothing.

        Does nothing either where runs are kept in this process only.
        """
        if self._recovery is not None or self._is_shutting_down:
            return
        store = durable_store()
        if store is None or store.leases is None:
            return
        with self._lock:
            if self._recovery is None:
                self._recovery = Recovery(self, store)
                self._recovery.start()

    def launch(self, plan: RunPlan, run: StoredRun, first_frame: bytes | None = None) -> None:
        """Execute a run on the engine's own event loop, where nothing that a server does can stop it.

        With its `first_frame`, viewers need not read that from the store.
        """
        from django_pydantic_agent.runs.execution import Execution

        tool_threads, readers = self._threads()
        execution = Execution(
            plan,
            run,
            recorder=self.recorder,
            tool_threads=tool_threads,
            readers=readers,
            wait_for=self._waiter(plan.store),
        )
        if first_frame is not None:
            execution.log.publish(1, [first_frame], None)
        self._enter(execution)
        self.beats.hold(plan.store, run, cancel=execution.cancel, lose=execution.abandon)
        self.viewers.guard(plan.store, run, cancel=execution.cancel)
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._spawn, loop, self._execute(execution), context=Context())

    async def execute_here(self, plan: RunPlan, run: StoredRun) -> None:
        """Execute a run in the caller's event loop, with everything synchronous in the caller's thread."""
        from django_pydantic_agent.agents.tools import CallerThread
        from django_pydantic_agent.runs.execution import Execution
        from django_pydantic_agent.runs.recorder import InlineRecorder

        caller = CallerThread()
        execution = Execution(
            plan,
            run,
            recorder=InlineRecorder(),
            tool_threads=caller,
            readers=caller,
            wait_for=self._waiter(plan.store),
            own_thread=False,
        )
        execution.log.readers = caller
        self._enter(execution)
        await self._execute(execution)

    def drain(self, grace_seconds: float) -> None:
        """Let the runs that have begun here go on for `grace_seconds`, then let go of those that did not end.

        Other processes take them over at once, and those that have not begun without any grace; a run that none can see
        ends here.
        """
        queued = [execution for execution in self._executions() if not execution.has_begun]
        self._let_go(queued)
        if not self._wait_for_runs(grace_seconds):
            remaining = [execution for execution in self._executions() if execution not in queued]
            if remaining:
                logger.warning("%d runs are stopped because the process stops.", len(remaining))
            self._let_go(remaining)
            self._wait_for_runs(CANCEL_SECONDS)

    def shut_down(self, grace_seconds: float) -> None:
        """Begin no more runs, have those of this process end within `grace_seconds`, and let all viewers go; for good.

        Viewers of runs that execute elsewhere go at once, those of runs that execute here stay to see their end.
        """
        self._is_shutting_down = True
        if self._recovery is not None:
            self._recovery.stop()
        self.watcher.close()
        self.drain(grace_seconds)
        for execution in self._executions():
            execution.log.close()

    def wait(self) -> None:
        """Wait until no run executes here any more but those that are held up by a person who has to answer."""
        while not self._wait_for_runs(LOOK_SECONDS):
            if all(execution.is_held_up for execution in self._executions()):
                return

    def stop(self) -> None:
        """Commit what is queued and end the engine's threads; nothing can run here any more."""
        if self._recovery is not None:
            self._recovery.stop()
        self.watcher.stop()
        self.viewers.stop()
        self.recorder.stop()
        self.announcer.stop()
        self.beats.stop()
        self._readers.shutdown()
        for threads in (self._tool_threads, self._run_readers):
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _threads(self) -> "tuple[ToolThreads, ToolThreads]":
        """Return the threads of tools and hooks, and those on which the runs themselves read."""
        from django_pydantic_agent.agents.tools import ToolThreads

        with self._lock:
            if self._tool_threads is None:
                self._tool_threads = ToolThreads(agent_settings.TOOL_THREADS)
            if self._run_readers is None:
                # A pool of the standard library takes nothing any more when the process drains at its exit.
                self._run_readers = ToolThreads(READERS, name="agent-reader")
            return self._tool_threads, self._run_readers

    def _waiter(self, store: RunStore) -> Callable[[StoredRun], Awaitable[None]]:
        async def wait_for(run: StoredRun) -> None:
            log = self._log(run, store)
            if log.is_closed:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                await log.wait_async(END, AHEAD_SECONDS)

        return wait_for

    def _enter(self, execution: "Execution") -> None:
        with self._lock:
            self._live[execution.key] = execution
        self.watcher.look_soon()

    def _leave(self, execution: "Execution") -> None:
        log = execution.log
        self.beats.release(log.store, log.key, execution.epoch)
        self.viewers.release(log.store, log.key, execution.epoch)
        if not log.ended and log.readers is None:
            # Somebody else ends the run; who follows it here learns of that from the store.
            self.watcher.adopt(log)
        with self._lock:
            if self._live.get(execution.key) is execution:
                del self._live[execution.key]
            if log.ended:
                self._recent[execution.key] = log
            while len(self._recent) > RECENT_LOGS:
                self._recent.popitem(last=False)
            self._all_ended.notify_all()

    def _executions(self) -> "Sequence[Execution]":
        with self._lock:
            return list(self._live.values())

    def _let_go(self, executions: "Sequence[Execution]") -> None:
        """Have other processes take over these runs, and end those that none can see."""
        for execution in executions:
            if execution.plan.store.leases is None:
                execution.cancel(for_shutdown=True)
            else:
                self.beats.let_go(execution.plan.store, execution.log.key, execution.epoch)
                asyncio.run_coroutine_threadsafe(self._release(execution), self._running_loop())

    def _wait_for_runs(self, seconds: float) -> bool:
        with self._all_ended:
            return self._all_ended.wait_for(lambda: not self._live, seconds)

    async def _execute(self, execution: "Execution") -> None:
        try:
            await execution.run()
        except Exception:
            logger.exception("Run %r could not be brought to an end.", execution.run_id)
        finally:
            self._leave(execution)

    async def _release(self, execution: "Execution") -> None:
        try:
            await execution.release()
        except Exception:
            logger.exception("Run %r is not let go of; it is taken over when its lease ends.", execution.run_id)
            execution.abandon()

    def _spawn(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
        task = loop.create_task(coroutine, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run_loop, args=[self._loop], name="agent-engine", daemon=True)
                thread.start()
                self.beats.loop_watch = LoopWatch(self._loop, thread)
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


_engine: Engine | None = None
_engine_lock = threading.Lock()


def get_engine() -> Engine:
    """Return this process's engine, made on first use. A forked process gets one of its own."""
    global _engine
    with _engine_lock:
        if _engine is None:
            _engine = Engine()
        return _engine


def drain_engine(grace_seconds: float | None = None) -> None:
    """Drain this process's engine, if it has one, within SHUTDOWN_GRACE_SECONDS or `grace_seconds`."""
    if _engine is not None:
        _engine.drain(agent_settings.SHUTDOWN_GRACE_SECONDS if grace_seconds is None else grace_seconds)


def shut_down_engine() -> bool:
    """Shut this process's engine down within SHUTDOWN_GRACE_SECONDS; False where it has none."""
    if _engine is None:
        return False
    _engine.shut_down(agent_settings.SHUTDOWN_GRACE_SECONDS)
    return True


def stop_engine() -> None:
    """Drain and stop this process's engine, if it has one; the next `get_engine()` makes a new one."""
    global _engine
    drain_engine()
    with _engine_lock:
        engine, _engine = _engine, None
    if engine is not None:
        engine.stop()


def _forget_engine() -> None:
    global _engine, _engine_lock
    _engine = None
    _engine_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_engine)
atexit.register(stop_engine)
