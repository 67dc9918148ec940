"""What the engine does inside a run's agent, in one capability.

pydantic-ai hands every hook, and every event of the stream, through each capability of a run, so several would cost a
run of many steps several times as much.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities import WrapToolExecuteHandler
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext, ToolDefinition

from django_pydantic_agent.agents.tools import ToolConnections
from django_pydantic_agent.policy.audit import Audit, outcome_of_call, size_of
from django_pydantic_agent.policy.failure import REDACT, FailurePolicy, shown_result

logger = logging.getLogger(__name__)


@dataclass
class RunHooks(ToolConnections):
    """Keeps no connection open behind tools, and calls `reached` at the points from which the run could be continued.

    These are before each model request, after each response and after each batch of tools. `reached` is given the
    model's history: a new list at each call, but the run's own messages, the last of which is still stamped afterwards.
    With `committed`, no tool begins before that has returned. What a tool raises is shown as `failure_policy` has it,
    and `audit` is told how each call has ended.
    """

    reached: Callable[[list[ModelMessage]], None] | None = field(default=None, kw_only=True)
    committed: Callable[[], Awaitable[None]] | None = field(default=None, kw_only=True)
    failure_policy: FailurePolicy = field(default=REDACT, kw_only=True)
    audit: Audit | None = field(default=None, kw_only=True)
    id: str | None = field(default="django_pydantic_agent_run", kw_only=True)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        request_context = await super().before_model_request(ctx, request_context)
        if self.reached is not None:
            self.reached(list(ctx.messages))
        return request_context

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        args = await super().before_tool_execute(ctx, call=call, tool_def=tool_def, args=args)
        if self.committed is not None:
            await self.committed()
        return args

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        started = time.monotonic()
        try:
            result = await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
        except BaseException as error:
            await self._audit(call, started, outcome_of_call(error), 0)
            text = shown_result(error, self.failure_policy, tool=call.tool_name)
            if text is None:
                raise
            logger.warning("The tool %r of run %r failed.", call.tool_name, ctx.run_id, exc_info=True)
            raise ToolFailed(text) from error
        if self.audit is not None:
            await self._audit(call, started, "completed", size_of(result))
        return result

    async def _audit(self, call: ToolCallPart, started: float, outcome: str, output_bytes: int | None) -> None:
        if self.audit is not None:
            await self.audit.record_call(call, started=started, outcome=outcome, output_bytes=output_bytes)

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: "AgentNode[Any]", result: "NodeResult[Any]"
    ) -> "NodeResult[Any]":
        result = await super().after_node_run(ctx, node=node, result=result)
        if self.reached is not None and isinstance(node, CallToolsNode | ModelRequestNode):
            # The results of tools are only in the request to come.
            results = (
                [result.request] if isinstance(node, CallToolsNode) and isinstance(result, ModelRequestNode) else []
            )
            self.reached([*ctx.messages, *results])
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        result = await super().after_run(ctx, result=result)
        if self.reached is not None:
            self.reached(result.all_messages())
        return result
