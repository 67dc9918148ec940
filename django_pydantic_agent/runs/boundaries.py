"""The points of a run from which it could be continued, told to the engine as they are reached."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext


@dataclass
class Boundaries(AbstractCapability[Any]):
    """Calls `reached` with the model's history before each request, after each response and each batch of tools.

    The list is new at each call; the messages in it are the run's own, the last of which is still stamped afterwards.
    """

    reached: Callable[[list[ModelMessage]], None]
    id: str | None = field(default="django_pydantic_agent_boundaries", kw_only=True)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self.reached(list(ctx.messages))
        return request_context

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: "AgentNode[Any]", result: "NodeResult[Any]"
    ) -> "NodeResult[Any]":
        if isinstance(node, CallToolsNode) and isinstance(result, ModelRequestNode):
            self.reached([*ctx.messages, result.request])
        elif isinstance(node, CallToolsNode | ModelRequestNode):
            self.reached(list(ctx.messages))
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        self.reached(result.all_messages())
        return result
