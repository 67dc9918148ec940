"""Partitions of one step store or conversation store."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.conversations import (
    ConversationStore,
    StoredThread,
    ThreadName,
    ThreadPage,
    ThreadQuery,
    ThreadRun,
    ThreadSoFar,
    TurnGround,
    TurnSave,
    TurnStart,
)

if TYPE_CHECKING:
    from pydantic_ai_harness.step_persistence import (
        ContinuableSnapshot,
        RunRecord,
        StepEvent,
        StepStore,
        ToolEffectRecord,
    )

    from django_pydantic_agent.log.frames import JsonObject
    from django_pydantic_agent.stores.writes import Ending
    from django_pydantic_agent.threads.posture import ThreadOutline

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
        self.factory = factory
        self.scope = _checked(scope)

    def __call__(self, request: Any) -> "StepStore":
        store = self.factory(request)
        if hasattr(store, "scoped"):
            scoped: StepStore = store.scoped(self.scope)
            return scoped
        return PrefixedStepStore(store, self.scope)


class PrefixedStepStore:
    """A step store in which every run id is preceded by a scope."""

    def __init__(self, store: "StepStore", scope: str) -> None:
        self._store = store
        self.scope = scope
        self._prefix = _prefix(scope)

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


class ScopedConversationStore(ConversationStore):
    """A conversation store that holds the threads of one scope only.

    Pass it as `conversation_store` in place of the store it wraps. Our own stores keep the scope apart from the ids;
    any other gets thread ids that carry it. Clients see their own ids.
    """

    def __init__(self, store: ConversationStore, *, scope: str) -> None:
        if isinstance(store, type) or not hasattr(store, "accept"):
            raise TypeError(f"store must be a conversation store, not {store!r}")
        self.scope = _checked(scope)
        scoped = getattr(store, "scoped", None)
        self._store: ConversationStore = scoped(scope) if scoped else store
        self._prefix = "" if scoped else _prefix(scope)

    def owner(self, request: Any) -> Owner | None:
        return self._store.owner(request)

    def view(self, *, owner: Owner, thread_id: str) -> "ThreadOutline | None":
        return self._store.view(owner=owner, thread_id=self._prefix + thread_id)

    def read(self, *, owner: Owner, thread_id: str, superseded: bool = False) -> StoredThread:
        thread = self._store.read(owner=owner, thread_id=self._prefix + thread_id, superseded=superseded)
        return replace(thread, thread_id=thread_id)

    def holds(self, *, owner: Owner, thread_id: str, run: int) -> bool:
        return self._store.holds(owner=owner, thread_id=self._prefix + thread_id, run=run)

    def current_run(self, *, owner: Owner, thread_id: str) -> int | None:
        return self._store.current_run(owner=owner, thread_id=self._prefix + thread_id)

    def next_run(self, *, owner: Owner, thread_id: str, after: int) -> ThreadRun | None:
        return self._store.next_run(owner=owner, thread_id=self._prefix + thread_id, after=after)

    def progress(self, threads: Collection[ThreadName]) -> Mapping[ThreadName, int]:
        found = self._store.progress([(owner, self._prefix + thread_id) for owner, thread_id in threads])
        return {(owner, thread_id.removeprefix(self._prefix)): newest for (owner, thread_id), newest in found.items()}

    def titles(self, *, owner: Owner, thread_ids: Collection[str]) -> Mapping[str, str]:
        titles = self._store.titles(owner=owner, thread_ids=[self._prefix + thread_id for thread_id in thread_ids])
        return {thread_id.removeprefix(self._prefix): title for thread_id, title in titles.items()}

    def page(self, *, owner: Owner, query: ThreadQuery) -> ThreadPage:
        """Return a page; where ids carry the scope it may be shorter than asked for, but is empty only as the last."""
        while True:
            page = self._store.page(owner=owner, query=query)
            rows = [
                replace(row, thread_id=row.thread_id.removeprefix(self._prefix))
                for row in page.threads
                if row.thread_id.startswith(self._prefix)
            ]
            if rows or page.next is None:
                return ThreadPage(rows, page.next)
            query = replace(query, cursor=page.next)

    def rename(self, *, owner: Owner, thread_id: str, title: str, revision: int | None = None) -> None:
        self._store.rename(owner=owner, thread_id=self._prefix + thread_id, title=title, revision=revision)

    def entitle(self, *, owner: Owner, thread_id: str, title: str) -> None:
        self._store.entitle(owner=owner, thread_id=self._prefix + thread_id, title=title)

    def archive(self, *, owner: Owner, thread_id: str, archived: bool, revision: int | None = None) -> None:
        self._store.archive(owner=owner, thread_id=self._prefix + thread_id, archived=archived, revision=revision)

    def delete(self, *, owner: Owner, thread_id: str, revision: int | None = None) -> list[int]:
        return self._store.delete(owner=owner, thread_id=self._prefix + thread_id, revision=revision)

    def accept(self, start: TurnStart, *, run: int, run_id: str) -> int:
        return self._store.accept(replace(start, thread_id=self._prefix + start.thread_id), run=run, run_id=run_id)

    def ground(self, *, run: int) -> TurnGround:
        return self._store.ground(run=run)

    def transcript(self, *, run: int) -> "Sequence[JsonObject]":
        return self._store.transcript(run=run)

    def so_far(self, *, run: int) -> ThreadSoFar:
        return self._store.so_far(run=run)

    def save(self, saved: TurnSave) -> None:
        self._store.save(saved)

    def end(self, saved: TurnSave, ending: "Ending") -> int:
        return self._store.end(saved, ending)

    def end_wait(self, *, run: int) -> None:
        self._store.end_wait(run=run)


def _checked(scope: str) -> str:
    if not scope or not isinstance(scope, str):
        raise ValueError(f"scope must be a non-empty string, not {scope!r}")
    return scope


def _prefix(scope: str) -> str:
    """Return what precedes the ids of a scope, so that no scope and id reach another scope."""
    return f"{SEPARATOR}{len(scope)}:{scope}{SEPARATOR}"
