"""The harness's StepPersistence for stores that serialise what they are given before they return."""

from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import unwrap
from typing import Any

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, SnapshotState, StepPersistence, is_provider_valid


@dataclass
class UncopiedStepPersistence(StepPersistence[Any]):
    """Records what StepPersistence does, at a cost that does not grow with the history.

    It hands the store the messages themselves, where StepPersistence copies the whole history twice per snapshot. It
    looks for open calls in new messages only, saves the history before a request only where that differs from what was
    saved behind the tools, and announces no snapshot in the stream.
    """

    # As they are without the wrapper for durable executors, which inspects a signature on each call.
    _append_event = unwrap(StepPersistence._append_event)
    _record_tool_effect = unwrap(StepPersistence._record_tool_effect)
    _finish_tool_effect = unwrap(StepPersistence._finish_tool_effect)

    # Compared with the messages of a run: fast, because these are the same objects but for what is new.
    _settled: list[ModelMessage] = field(default_factory=list, init=False, repr=False)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._stash_live_history(ctx)
        if self._settled != ctx.messages:
            await self._save_frontier(ctx, list(ctx.messages))
        await self._record_event(ctx, kind="model_request_started")
        return request_context

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: "AgentNode[Any]", result: "NodeResult[Any]"
    ) -> "NodeResult[Any]":
        self._stash_live_history(ctx)
        if isinstance(node, ModelRequestNode):
            await self._save_frontier(ctx, list(ctx.messages))
        elif isinstance(node, CallToolsNode):
            returned = [result.request] if isinstance(result, ModelRequestNode) else []
            messages = [*ctx.messages, *returned]
            if self._is_settled(messages):
                await self._save_continuable_snapshot(ctx, messages, ctx.run_step)
                if not returned:
                    # Only the last message is still changed after the last step, so a copy of that one shows whether
                    # there is news at the end of the run.
                    self._last_snapshot_messages = [*messages[:-1], *map(_copied, messages[-1:])]
        return result

    def _is_settled(self, messages: list[ModelMessage]) -> bool:
        """Return whether every call in the history has its result."""
        known = len(self._settled)
        if is_provider_valid(messages[known:] if messages[:known] == self._settled else messages):
            self._settled = messages
            return True
        return False

    async def _save_frontier(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> None:
        state: SnapshotState = "complete" if self._is_settled(messages) else "interrupted"
        await self._save_continuable_snapshot(ctx, messages, ctx.run_step, state)

    async def _save_continuable_snapshot(
        self,
        ctx: RunContext[Any],
        messages: list[ModelMessage],
        step_index: int,
        state: SnapshotState = "complete",
    ) -> None:
        await self._save_snapshot(
            run_id=self._effective_run_id(ctx),
            step_index=step_index,
            messages=messages,
            conversation_id=ctx.conversation_id,
            parent_run_id=self.parent_run_id,
            agent_name=self.agent_name,
            state=state,
        )

    async def _save_snapshot(
        self,
        *,
        run_id: str,
        step_index: int,
        messages: list[ModelMessage],
        conversation_id: str | None,
        parent_run_id: str | None,
        agent_name: str | None,
        state: SnapshotState = "complete",
    ) -> None:
        index = self._snapshot_sequence
        self._snapshot_sequence += 1
        await self.store.save_snapshot(
            ContinuableSnapshot(
                run_id=run_id,
                step_index=step_index,
                messages=messages,
                conversation_id=conversation_id,
                parent_run_id=parent_run_id,
                agent_name=agent_name,
                timestamp=datetime.now(UTC),
                state=state,
                idempotency_key=f"{index}:{step_index}:{state}",
            )
        )
        self._last_snapshot_step = step_index


def _copied(message: ModelMessage) -> ModelMessage:
    """Return a copy that keeps what the fields of the message and of its parts are now."""
    kept = copy(message)
    kept.parts = [copy(part) for part in message.parts]  # type: ignore[assignment]
    return kept
