"""One run, from its plan to its terminal frame."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, aclosing
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, cast

from ag_ui.core import BaseEvent, EventType, RunErrorEvent, RunFinishedEvent
from ag_ui.core import RunFinishedCancelledOutcome as Cancelled
from ag_ui.core import RunFinishedSuccessOutcome as Success
from pydantic_ai import CancellationToken, DeferredToolRequests, UsageLimits
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import RunTimedOut
from pydantic_ai.messages import ModelMessage

from django_pydantic_agent.agents.build import build_agent
from django_pydantic_agent.agents.deps import AgentDeps
from django_pydantic_agent.agents.tools import RunThread, ToolConnections
from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import LeaseLost, NotContinuable
from django_pydantic_agent.log.adapter import RunAdapter, ToolCallIds
from django_pydantic_agent.log.chunks import Chunks
from django_pydantic_agent.log.frames import bounded, encode
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.policy.failure import SHUTDOWN, Failure, describe
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.recorder import Recorder
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import Ending, StoredRun

logger = logging.getLogger(__name__)

# What belongs to the engine; a tool that returns such an event would end or restart the run for its viewers.
_RUN_LEVEL = frozenset({EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.RUN_ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What `AgentConfig` and its hooks made for one run."""

    agent: AbstractAgent[Any, Any]
    model: Any
    instructions: Any
    deps: Any
    history: list[ModelMessage]
    toolsets: list[Any]
    capabilities: list[Any]


class Execution:
    """Executes one run: feeds the agent, logs its events, and writes how it ended."""

    def __init__(
        self, plan: RunPlan, run: StoredRun, *, recorder: Recorder, tool_threads: Executor, own_thread: bool = True
    ) -> None:
        self.plan = plan
        self.run_id = run.run_id
        self.key = (id(plan.store), run.key)
        self.log = LiveLog(plan.store, run.key, last_seq=run.last_seq, status=run.status)
        self._run = run
        self._journal = recorder.open(plan.store, run, self.log)
        self._tool_threads = tool_threads
        self._thread = RunThread() if own_thread else None
        self._token = CancellationToken()
        self._stopped_by_shutdown = False
        self._chunks = Chunks()
        self._projection = Projection(state=plan.run_input.state)
        self._accepted = time.monotonic()
        self._deltas: list[float] = []

    def cancel(self, *, for_shutdown: bool = False) -> None:
        """Ask the run to stop; safe from any thread, and more than once."""
        self._stopped_by_shutdown |= for_shutdown
        self._token.cancel()

    async def run(self) -> None:
        """Execute the run to its terminal frame; whatever goes wrong becomes that frame."""
        async with AsyncExitStack() as stack:
            if self._thread is not None:
                await stack.enter_async_context(self._thread)
            try:
                event, ending, waiting = await self._execute()
            except LeaseLost:
                return
            except Exception as error:
                event, ending, waiting = self._failed(error)
            await self._end(event, ending, waiting)

    async def _execute(self) -> tuple[BaseEvent, Ending, frozenset[str]]:
        """Run the agent and return its terminal event, how the run ends, and the calls that wait for the client."""
        prepared = await self._prepare()
        adapter = RunAdapter(agent=prepared.agent, run_input=self.plan.run_input)
        call_ids = ToolCallIds([*prepared.history, *adapter.messages])
        stream = adapter.run_stream(
            output_type=_output_type(prepared.agent),
            message_history=prepared.history,
            run_id=self.run_id,
            model=prepared.model,
            instructions=prepared.instructions,
            deps=prepared.deps,
            model_settings=self.plan.config.model_settings or agent_settings.MODEL_SETTINGS,
            usage_limits=self.plan.config.usage_limits
            or agent_settings.USAGE_LIMITS
            or UsageLimits(request_limit=None),
            timeout=self.plan.config.run_timeout or agent_settings.RUN_TIMEOUT_SECONDS,
            cancellation_token=self._token,
            toolsets=prepared.toolsets,
            capabilities=prepared.capabilities,
            infer_name=False,
        )
        async with aclosing(cast("AsyncGenerator[BaseEvent]", stream)) as events:
            async for event in events:
                if event.type in _RUN_LEVEL:
                    logger.warning("Run %r: a tool may not send a %s event.", self.run_id, event.type.value)
                    continue
                call_ids.apply(event)
                self._emit(event)
                if self._journal.is_full or self._journal.failure is not None:
                    await self._journal.settled()
        await self._journal.settled()
        return self._outcome(adapter, call_ids)

    def _outcome(self, adapter: RunAdapter, call_ids: ToolCallIds) -> tuple[BaseEvent, Ending, frozenset[str]]:
        stream = adapter.stream
        if stream.failure is not None:
            return self._failed(stream.failure)
        if stream.cancelled is not None:
            if self._stopped_by_shutdown:
                return self._failed(stream.cancelled, SHUTDOWN)
            if isinstance(stream.cancelled, RunTimedOut):
                return self._failed(stream.cancelled)
            return self._finished(Cancelled()), self._ending(RunStatus.CANCELLED), frozenset()
        pending = stream.pending_calls(call_ids)
        usage = stream.result.usage if stream.result is not None else None
        if (interrupts := stream.interrupts(call_ids)) is not None:
            asked = [interrupt.model_dump(mode="json", by_alias=True) for interrupt in interrupts.interrupts]
            calls = {interrupt.tool_call_id for interrupt in interrupts.interrupts if interrupt.tool_call_id}
            ending = self._ending(RunStatus.INTERRUPTED, interrupts=asked, usage=usage)
            return self._finished(interrupts), ending, frozenset(pending) | calls
        event = self._finished(Success(pending_tool_call_ids=pending or None))
        return event, self._ending(RunStatus.FINISHED, usage=usage), frozenset(pending)

    def _finished(self, outcome: Any) -> RunFinishedEvent:
        return RunFinishedEvent(
            thread_id=self._run.thread_id, run_id=self.run_id, outcome=outcome, timestamp=_milliseconds()
        )

    def _failed(self, error: BaseException, failure: Failure | None = None) -> tuple[BaseEvent, Ending, frozenset[str]]:
        failure = failure or describe(error)
        logger.error("Run %r failed (%s).", self.run_id, failure.code, exc_info=error)
        event = RunErrorEvent(message=failure.message, code=failure.code, timestamp=_milliseconds())
        shown = {"code": failure.code, "message": failure.message}
        return event, self._ending(RunStatus.FAILED, error=shown), frozenset()

    def _ending(self, status: RunStatus, *, usage: Any = None, **details: Any) -> Ending:
        return Ending(status=status, usage=_counts(usage), **details)

    async def _end(self, event: BaseEvent, ending: Ending, waiting: frozenset[str]) -> None:
        """Close what is open and write the terminal event together with the end of the run."""
        for closing in list(self._projection.items.closing(waiting=waiting)):
            self._emit(closing)
        ending = Ending(
            status=ending.status,
            error=ending.error,
            interrupts=ending.interrupts,
            usage=ending.usage,
            message_ids=self._projection.message_ids,
            timing=self._timing(),
        )
        if not await self._journal.end(encode(event), ending):
            logger.error("Run %r ended as %s, which could not be saved.", self.run_id, ending.status)
            return
        try:
            await self._in_thread(self.plan.store.tidy, self._run.key)
        except Exception:
            logger.warning("The log of run %r could not be tidied.", self.run_id, exc_info=True)

    def _emit(self, event: BaseEvent) -> None:
        if not self._deltas:
            self._deltas = [time.monotonic()] * 2
        else:
            self._deltas[1] = time.monotonic()
        for logged in self._chunks.expand(event):
            frame = encode(bounded(logged))
            self._projection.apply_frame(frame)
            self._journal.append(frame)

    def _timing(self) -> dict[str, Any]:
        """Return the content-free times of the run, in seconds since it was taken up."""
        times = self._journal.times
        return {
            "first_event": round(self._deltas[0] - self._accepted, 6) if self._deltas else None,
            "last_event": round(self._deltas[1] - self._accepted, 6) if self._deltas else None,
            "end": round(time.monotonic() - self._accepted, 6),
            "commits": times.count,
            "longest_commit": round(times.longest, 6),
            "failed_commits": times.retries,
        }

    async def _prepare(self) -> Prepared:
        config, request = self.plan.config, self.plan.request
        agent = await self._in_thread(build_agent, config.source)
        step_store = await self._call(config.step_store, request)
        history: list[ModelMessage] = []
        if self.plan.source is not None:
            snapshot = await step_store.latest_snapshot(run_id=self.plan.source.run_id)
            if snapshot is None:
                raise NotContinuable
            history = snapshot.messages
        capabilities = [_made(capability) for capability in config.capabilities]
        capabilities.append(ToolConnections(self._tool_threads, thread=self._thread))
        if step_store is not None:
            from django_pydantic_agent.stores.steps import persistence

            step_store, capability = persistence(step_store, self._journal, parent=self.plan.source)
            capabilities.append(capability)
        return Prepared(
            agent=agent,
            model=await self._call(config.model_for_request, request) or config.model or self._default_model(agent),
            instructions=(
                await self._call(config.instructions_for_request, request)
                or config.instructions
                or agent_settings.INSTRUCTIONS
            ),
            deps=await self._deps(step_store),
            history=history,
            toolsets=[_made(toolset) for toolset in config.toolsets],
            capabilities=capabilities,
        )

    @staticmethod
    def _default_model(agent: AbstractAgent[Any, Any]) -> Any:
        return agent_settings.MODEL if agent.model is None else None

    async def _deps(self, step_store: Any) -> Any:
        request, run_input = self.plan.request, self.plan.run_input
        if self.plan.config.deps_factory is not None:
            return await self._call(self.plan.config.deps_factory, request)
        return AgentDeps(
            user=request.user,
            owner=request.owner,
            request=request,
            state=run_input.state or {},
            context=run_input.context or [],
            forwarded_props=run_input.forwarded_props or {},
            run_id=self.run_id,
            thread_id=self._run.thread_id,
            step_store=step_store,
        )

    async def _call(self, hook: Callable[..., Any] | None, request: Any) -> Any:
        """Return what a hook makes of the request; a plain function is called where it may block."""
        if hook is None:
            return None
        if inspect.iscoroutinefunction(hook):
            return await hook(request)
        result = await self._in_thread(hook, request)
        return await result if inspect.isawaitable(result) else result

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._tool_threads, copy_context().run, function, *args)


def _output_type(agent: AbstractAgent[Any, Any]) -> Any:
    """Return the agent's output type with room for calls that wait for approval.

    pydantic-ai takes no output type of the run beside output validators; such an agent has to name it itself.
    """
    if getattr(agent, "_output_validators", None):
        return None
    return [agent.output_type, DeferredToolRequests]


def _made(source: Any) -> Any:
    """Return a pydantic-ai object, made by `source` where that is a callable that makes one for each run."""
    return source() if inspect.isroutine(source) or inspect.isclass(source) else source


def _counts(usage: Any) -> dict[str, int] | None:
    if usage is None:
        return None
    return {
        "requests": usage.requests,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _milliseconds() -> int:
    return int(time.time() * 1000)
