"""Partitions of one step store."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic_ai_harness.step_persistence import (
        ContinuableSnapshot,
        RunRecord,
        StepEvent,
        StepStore,
        ToolEffectRecord,
    )

R = TypeVar("R")

SEPARATOR = "\x1f"
"""No client's id holds a control character, so no id of an unscoped store reaches into a scope."""


class ScopedStepStore:
    """A step-store factory whose stores hold the runs of one scope only.

    Pass it as `step_store` in place of the factory it wraps. Our own store keeps the scope in a column; any other gets
    run ids that carry it. Clients see their own ids.
    """

    def __init__(self, factory: Callable[[Any], Any], *, scope: str) -> None:
        if not callable(factory):
            raise TypeError(f"factory must be a callable that takes a request, not {factory!r}")
        if not scope or not isinstance(scope, str):
            raise ValueError(f"scope must be a non-empty string, not {scope!r}")
        self._factory = factory
        self.scope = scope

    def __call__(self, request: Any) -> "StepStore":
        store = self._factory(request)
        if hasattr(store, "scoped"):
            scoped: StepStore = store.scoped(self.scope)
            return scoped
        return PrefixedStepStore(store, self.scope)


class PrefixedStepStore:
    """A step store in which every run id is preceded by a scope."""

    def __init__(self, store: "StepStore", scope: str) -> None:
        self._store = store
        self.scope = scope
        self._prefix = f"{SEPARATOR}{len(scope)}:{scope}{SEPARATOR}"

    async def register_run(self, record: "RunRecord") -> None:
        await self._store.register_run(self._inward(record))

    async def get_run(self, *, run_id: str) -> "RunRecord | None":
        return self._outward(await self._store.get_run(run_id=self._prefix + run_id))

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> "list[RunRecord]":
        records = await self._store.list_runs(
            parent_run_id=None if parent_run_id is None else self._prefix + parent_run_id,
            conversation_id=conversation_id,
        )
        return [self._outward(record) for record in records if record.run_id.startswith(self._prefix)]

    async def append_event(self, event: "StepEvent") -> None:
        await self._store.append_event(self._inward(event))

    async def list_events(self, *, run_id: str) -> "list[StepEvent]":
        return [self._outward(event) for event in await self._store.list_events(run_id=self._prefix + run_id)]

    async def save_snapshot(self, snapshot: "ContinuableSnapshot") -> None:
        await self._store.save_snapshot(self._inward(snapshot))

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> "ContinuableSnapshot | None":
        return self._outward(
            await self._store.latest_snapshot(run_id=self._prefix + run_id, include_interrupted=include_interrupted)
        )

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> "list[ContinuableSnapshot]":
        snapshots = await self._store.list_snapshots(  # type: ignore[attr-defined]
            run_id=self._prefix + run_id, include_interrupted=include_interrupted
        )
        return [self._outward(snapshot) for snapshot in snapshots]

    async def record_tool_effect(self, record: "ToolEffectRecord") -> None:
        await self._store.record_tool_effect(self._inward(record))

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> "ToolEffectRecord | None":
        return self._outward(await self._store.get_tool_effect(run_id=self._prefix + run_id, tool_call_id=tool_call_id))

    async def list_unresolved_tool_effects(self, *, run_id: str) -> "list[ToolEffectRecord]":
        records = await self._store.list_unresolved_tool_effects(run_id=self._prefix + run_id)
        return [self._outward(record) for record in records]

    def _inward(self, record: R) -> R:
        return self._with_ids(record, lambda run_id: self._prefix + run_id)

    def _outward(self, record: R) -> R:
        return record if record is None else self._with_ids(record, lambda key: key.removeprefix(self._prefix))

    @staticmethod
    def _with_ids(record: R, change: Callable[[str], str]) -> R:
        made: Any = record
        changes = {"run_id": change(made.run_id)}
        if getattr(made, "parent_run_id", None) is not None:
            changes["parent_run_id"] = change(made.parent_run_id)
        changed: R = replace(made, **changes)
        return changed
