"""What the ledger is told of each tool call, however the call ends."""

import asyncio
import logging
import time
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_ai import ToolReturn
from pydantic_ai.capabilities import WrapToolExecuteHandler
from pydantic_ai.exceptions import ModelRetry, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai_harness.step_persistence import EventKind, StepPersistence, ToolEffectRecord

from django_pydantic_agent.agents.tools import watch_threads
from django_pydantic_agent.policy.audit import Audit, outcome_of_call, size_of
from django_pydantic_agent.policy.redaction import short_text
from django_pydantic_agent.stores.effects import Reason

logger = logging.getLogger(__name__)

_NOT_BEGUN = RuntimeError("cancelled before it began")

# The loop itself holds tasks weakly.
_going_on: set["asyncio.Task[None]"] = set()


@dataclass
class SettledStepPersistence(StepPersistence[Any]):
    """StepPersistence that also settles the calls which end otherwise than by returning or failing.

    A call that asks for another try, refuses, or puts off what it should do has failed. One that was cancelled or
    timed out stays `started`, because it may have acted; where it is synchronous and goes on in its thread, its end is
    recorded when it comes. A store with a method `describe` is told more of each call than its record has room for; one
    with a method `delegate_audit` says what is to be told of the calls of a delegate.
    """

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        self._describe(ctx, call, arguments=args)
        try:
            return await super().before_tool_execute(ctx, call=call, tool_def=tool_def, args=args)
        except CancelledError:
            await self._settle(ctx, call, _NOT_BEGUN, None)
            raise

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], result: Any
    ) -> Any:
        self._describe(ctx, call, result=result)
        return await super().after_tool_execute(ctx, call=call, tool_def=tool_def, args=args, result=result)

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        if _has_timed_out(error):
            raise error
        return await super().on_tool_execute_error(ctx, call=call, tool_def=tool_def, args=args, error=error)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        audit, started = self._delegate_audit(ctx), time.monotonic()
        with watch_threads() as use:
            try:
                result = await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
            except (Exception, CancelledError) as error:
                await self._settle(ctx, call, error, use.future)
                if audit is not None:
                    await audit.record_call(call, started=started, outcome=outcome_of_call(error), output_bytes=0)
                raise
        if audit is not None:
            await audit.record_call(call, started=started, outcome="completed", output_bytes=size_of(result))
        return result

    def _delegate_audit(self, ctx: RunContext[Any]) -> Audit | None:
        """Return what is told of the calls of a delegate, None where they are the run's own, which tells of them."""
        find: Callable[[str], Audit | None] | None = getattr(self.store, "delegate_audit", None)
        return None if find is None else find(self._effective_run_id(ctx))

    async def _settle(
        self, ctx: RunContext[Any], call: ToolCallPart, error: BaseException, future: "Future[Any] | None"
    ) -> None:
        """Record how a call ended that has not returned, unless that is recorded."""
        effect = await self.store.get_tool_effect(run_id=self._effective_run_id(ctx), tool_call_id=call.tool_call_id)
        if effect is None or effect.status != "started":
            return
        if _has_timed_out(error):
            self._describe(ctx, call, reason=Reason.TIMED_OUT)
            await self.store.record_tool_effect(effect)
        elif isinstance(error, CancelledError):
            # Why is known, and written, at the end of the run.
            self._describe(ctx, call, reason=Reason.CANCELLED)
        else:
            await self._end(ctx, effect, "failed", error)
            return
        if future is not None and _is_sync(ctx, call):
            end = self._end_with(ctx, call, effect, future)
            task = asyncio.get_running_loop().create_task(end, context=Context())
            _going_on.add(task)
            task.add_done_callback(_going_on.discard)

    async def _end_with(
        self, ctx: RunContext[Any], call: ToolCallPart, effect: ToolEffectRecord, future: "Future[Any]"
    ) -> None:
        """Record the end of a call that its run does not wait for, once its thread is through with it."""
        try:
            await asyncio.wait([asyncio.wrap_future(future)])
            if future.cancelled():
                await self._end(ctx, effect, "failed", _NOT_BEGUN)
            elif (error := future.exception()) is not None:
                await self._end(ctx, effect, "failed", error)
            else:
                self._describe(ctx, call, result=future.result())
                await self._end(ctx, effect, "completed")
        except Exception:
            logger.warning("Run %r: the end of %s cannot be recorded.", effect.run_id, effect.tool_name, exc_info=True)

    async def _end(
        self,
        ctx: RunContext[Any],
        effect: ToolEffectRecord,
        status: Literal["completed", "failed"],
        error: BaseException | None = None,
    ) -> None:
        shown = None if error is None else repr(_cause(error))
        tool = {"tool_call_id": effect.tool_call_id, "tool_name": effect.tool_name}
        await self._finish_tool_effect(effect.run_id, status=status, error=shown, **tool)
        kind: EventKind = "tool_call_completed" if status == "completed" else "tool_call_failed"
        await self._record_event(ctx, kind=kind, error=shown, **tool)

    def _describe(self, ctx: RunContext[Any], call: ToolCallPart, *, reason: str = "", **values: Any) -> None:
        if (describe := getattr(self.store, "describe", None)) is not None:
            texts = {name: short_text(_shown(value)) for name, value in values.items()}
            describe(self._effective_run_id(ctx), call.tool_call_id, reason=reason, **texts)


def _cause(error: BaseException) -> BaseException:
    """Return what a tool has raised, without what pydantic-ai wraps around it."""
    return error.__cause__ or error if isinstance(error, ToolRetryError | ToolFailedError) else error


def _has_timed_out(error: BaseException) -> bool:
    """Return whether a tool ran out of its time, which pydantic-ai turns into a request for another try."""
    retry = error if isinstance(error, ModelRetry) else error.__cause__
    return isinstance(retry, ModelRetry) and isinstance(retry.__context__, TimeoutError)


def _is_sync(ctx: RunContext[Any], call: ToolCallPart) -> bool:
    tool: Any = ctx.tool_manager and ctx.tool_manager.tools and ctx.tool_manager.tools.get(call.tool_name)
    while hasattr(tool, "source_tool"):
        tool = tool.source_tool
    return getattr(tool, "is_async", True) is False


def _shown(result: Any) -> Any:
    """Return of a tool's result what the model gets."""
    return result.return_value if isinstance(result, ToolReturn) else result
