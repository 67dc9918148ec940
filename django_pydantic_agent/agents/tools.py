"""The threads and database connections that tools run on."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition

from django_pydantic_agent.connections import release_connections

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class ThreadUse:
    """The newest call that a piece of code has made on the threads of tools, but for those made inside that call."""

    future: "Future[Any] | None" = None

    def note(self, future: "Future[Any]") -> None:
        if self.future is None or self.future.done():
            self.future = future


_use: ContextVar[ThreadUse | None] = ContextVar("thread_use", default=None)


@contextmanager
def watch_threads() -> Iterator[ThreadUse]:
    """Note the calls on the threads of tools that are made inside the block, which may go on after it."""
    use = ThreadUse()
    reset = _use.set(use)
    try:
        yield use
    finally:
        _use.reset(reset)


class ToolThreads(Executor):
    """Run sync tools on threads of their own, called `name`, at most `max_threads` at a time.

    A call that finds no free thread waits for one. After each call the thread's database connections are closed, so a
    tool always starts on a fresh one and an idle thread holds none. Threads are daemons, so a tool that never returns
    does not keep the process; one that had nothing to do for `idle_seconds` ends. A tool that waits for other sync
    tools holds its thread meanwhile and should be async.
    """

    def __init__(self, max_threads: int, *, name: str = "agent-tool", idle_seconds: float = 30.0) -> None:
        if max_threads < 1:
            raise ValueError("max_threads must be at least 1")
        self.max_threads = max_threads
        self.name = name
        self.idle_seconds = idle_seconds
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        if (use := _use.get()) is not None:
            use.note(future)
        with self._changed:
            if self._closed:
                raise RuntimeError("no tool can start after shutdown")
            self._calls.append((future, partial(fn, *args, **kwargs)))
            if len(self._calls) <= self._idle:
                self._changed.notify()
            elif len(self._threads) < self.max_threads:
                thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._threads.add(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._changed:
            self._closed = True
            if cancel_futures:
                for future, _ in self._calls:
                    future.cancel()
            self._changed.notify_all()
            threads = list(self._threads)
        if wait:
            for thread in threads:
                thread.join()

    def _work(self) -> None:
        while (call := self._next_call()) is not None:
            _run(*call)
            del call

    def _next_call(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._closed, self.idle_seconds)
            self._idle -= 1
            if self._calls:
                return self._calls.popleft()
            self._threads.discard(threading.current_thread())
            return None


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        try:
            result = call()
        finally:
            release_connections()
    except BaseException as error:
        future.set_exception(error)
        # The error's traceback holds this frame, which would hold the error's future.
        del future
    else:
        future.set_result(result)


class CallerThread(Executor):
    """Run sync tools in the thread that waits in `async_to_sync` for the run, on that thread's own connections.

    So the tools of a run that a test starts see the rows of the test's transaction. One call runs at a time.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        call = sync_to_async(fn, thread_sensitive=True)
        return asyncio.run_coroutine_threadsafe(call(*args, **kwargs), asyncio.get_running_loop())


class _OneThread(ThreadPoolExecutor):
    """One thread, begun with its first call, that notes whether it was used."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.was_used = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        self.was_used = True
        return super().submit(fn, *args, **kwargs)


class RunThread(ThreadSensitiveContext):
    """Give a run's thread-sensitive calls, async ORM included, a thread of their own for as long as it is entered.

    Leaving it closes that thread's database connections.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls = SyncToAsync.context_to_thread_executor[self] = _OneThread()

    async def release(self) -> None:
        """Close the thread's database connections; the next call opens new ones."""
        if self._calls.was_used:
            released = self._calls.submit(release_connections)
            self._calls.was_used = False
            await asyncio.shield(asyncio.wrap_future(released))

    async def __aexit__(self, *exc_info: Any) -> None:
        await self.release()
        await super().__aexit__(*exc_info)  # type: ignore[no-untyped-call]


@dataclass
class ToolConnections(AbstractCapability[Any]):
    """Keep no connection open in the run's own thread for its async tools once they have ended."""

    thread: RunThread | None = field(default=None, kw_only=True)
    _running: int = field(default=0, init=False, repr=False)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        self._running += 1
        try:
            return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
        finally:
            self._running -= 1
            if self.thread is not None and not self._running:
                await self.thread.release()
