"""The harness's StepPersistence for one run of the engine."""

from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import unwrap
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, SnapshotState, StepPersistence

from django_pydantic_agent.stores.base import RunHistory, StoredRun


def persistence(
    store: Any, journal: Any, *, history: RunHistory | None, parent: StoredRun | None
) -> tuple[Any, StepPersistence[Any]]:
    """Return the run's handle on `store` and the capability that writes to it.

    A store that can record through the engine serialises what is new before it returns, so nothing is copied for it; it
    shares what `history` keeps of the run.
    """
    parent_run_id = parent.run_id if parent else None
    if hasattr(store, "recording"):
        store = store.recording(journal, history)
        made: type[StepPersistence[Any]] = UncopiedStepPersistence
    else:
        made = StepPersistence
    capability = made(store=store, run_id=journal.run_id, parent_run_id=parent_run_id, capture_frontier=True)
    return store, capability


@dataclass
class UncopiedStepPersistence(StepPersistence[Any]):
    """Hands the store the messages themselves, where StepPersistence copies the whole history twice per snapshot."""

    # As they are without the wrapper for durable executors, which inspects a signature on each call.
    _append_event = unwrap(StepPersistence._append_event)
    _record_tool_effect = unwrap(StepPersistence._record_tool_effect)
    _finish_tool_effect = unwrap(StepPersistence._finish_tool_effect)

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
        # Only the last message is still changed after a snapshot, so a copy of that one shows whether there is news.
        self._last_snapshot_messages = [*messages[:-1], *map(_copied, messages[-1:])]
        self._last_snapshot_step = step_index


def _copied(message: ModelMessage) -> ModelMessage:
    """Return a copy that keeps what the fields of the message and of its parts are now."""
    kept = copy(message)
    kept.parts = [copy(part) for part in message.parts]  # type: ignore[assignment]
    return kept
