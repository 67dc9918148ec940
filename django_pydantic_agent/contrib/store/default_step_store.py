"""The harness's step store over the project's database."""

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_pydantic_agent.conf import STORE_APP
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.ownership import resolve_owner

if TYPE_CHECKING:
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

    from django_pydantic_agent.contrib.store.ledger import Ledger
    from django_pydantic_agent.contrib.store.messages import Recording
    from django_pydantic_agent.contrib.store.recording import ChangeQueue
    from django_pydantic_agent.contrib.store.run_history import DatabaseRunHistory
    from django_pydantic_agent.policy.audit import Audit
    from django_pydantic_agent.stores.effects import StoredEffect, Verdict

P = ParamSpec("P")
T = TypeVar("T")


class DefaultStepStore:
    """The step ledger of the owner that a request acts for.

    The class is itself a step-store factory: `AGUIServer(..., step_store=DefaultStepStore)`. A request without a
    durable identity has no owner; then writes do nothing and reads are empty. With `allow_anonymous`, an anonymous
    request owns what its session's bucket owns.
    """

    def __init__(self, request: Any, allow_anonymous: bool = False) -> None:
        if not apps.is_installed(STORE_APP):
            raise ImproperlyConfigured(f"DefaultStepStore needs {STORE_APP!r} in INSTALLED_APPS")
        self.owner = resolve_owner(request, allow_anonymous=allow_anonymous)
        self.scope = ""
        self._read: Recording | None = None

    def scoped(self, scope: str) -> "DefaultStepStore":
        """Return the store of the same owner that holds the runs of `scope` only."""
        if self.scope:
            raise ValueError(f"the store is scoped to {self.scope!r} already")
        store = copy(self)
        store.scope = scope
        return store

    def recording(
        self, journal: "ChangeQueue", history: "DatabaseRunHistory | None" = None, *, audit: "Audit | None" = None
    ) -> "DefaultStepStore":
        """Return this store for one live run, whose changes are committed together with its events.

        Its snapshots share the messages that `history` has kept of the run. The run goes on from the snapshot that was
        read last through this store, without storing its messages again. `audit` is told of the calls of delegates.
        """
        if self.owner is None:
            return self
        from django_pydantic_agent.contrib.store.recording import RecordingStepStore
        from django_pydantic_agent.contrib.store.run_history import DatabaseRunHistory

        history = history or DatabaseRunHistory(journal.key)
        if self._read is not None:
            history.go_on(self._read)
        return RecordingStepStore(self._ledger, journal, history, audit)

    async def register_run(self, record: "RunRecord") -> None:
        """Claim a run id. Raises `ValueError` where it is registered already, unless by the same registration."""
        if self.owner is not None:
            await self._in_thread(self._ledger.register_run, record)

    async def get_run(self, *, run_id: str) -> "RunRecord | None":
        return None if self.owner is None else await self._in_thread(self._ledger.get_run, run_id)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> "list[RunRecord]":
        """Return the registered runs, the one that started first at the front."""
        if self.owner is None:
            return []
        return await self._in_thread(self._ledger.list_runs, parent_run_id, conversation_id)

    async def append_event(self, event: "StepEvent") -> None:
        if self.owner is not None:
            await self._in_thread(self._ledger.append_event, event)

    async def list_events(self, *, run_id: str) -> "list[StepEvent]":
        """Return the events of a run in the order in which they were written."""
        return [] if self.owner is None else await self._in_thread(self._ledger.list_events, run_id)

    async def save_snapshot(self, snapshot: "ContinuableSnapshot") -> None:
        """Save a snapshot; one whose messages have no JSON form at all is left out, with a line in the log."""
        if self.owner is not None:
            await self._in_thread(self._ledger.save_snapshot, snapshot)

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> "ContinuableSnapshot | None":
        """Return the newest snapshot, of the complete ones unless `include_interrupted`."""
        if self.owner is None:
            return None
        found = await self._in_thread(self._ledger.latest_snapshot, run_id, include_interrupted)
        if found is None:
            return None
        snapshot, self._read = found
        return snapshot

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> "list[ContinuableSnapshot]":
        """Return the snapshots of a run in the order in which they were written."""
        if self.owner is None:
            return []
        return await self._in_thread(self._ledger.list_snapshots, run_id, include_interrupted)

    async def record_tool_effect(self, record: "ToolEffectRecord") -> None:
        """Write the state of a tool call in place of the one before."""
        if self.owner is not None:
            await self._in_thread(self._ledger.record_tool_effect, record)

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> "ToolEffectRecord | None":
        if self.owner is None:
            return None
        return await self._in_thread(self._ledger.get_tool_effect, run_id, tool_call_id)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> "list[ToolEffectRecord]":
        """Return the effects that have started and not ended, the first one first."""
        if self.owner is None:
            return []
        return await self._in_thread(self._ledger.list_unresolved_tool_effects, run_id)

    async def list_tool_effects(self, *, run_id: str) -> "list[StoredEffect]":
        """Return all that is known of the tool calls of a run and of its delegates, the first one first."""
        return [] if self.owner is None else await self._in_thread(self._ledger.list_tool_effects, run_id)

    async def settle_tool_effect(
        self, *, run_id: str, tool_call_id: str, verdict: "Verdict", by: str, note: str = ""
    ) -> "tuple[StoredEffect, bool] | None":
        """Give a verdict on a call whose outcome nobody knows; `by` says who gives it.

        Returns the effect as it is now and whether this verdict counts, None where there is no such call. It does not
        count where the call has ended or has a verdict, or may still be going on in a live run.
        """
        if self.owner is None:
            return None
        return await self._in_thread(self._ledger.settle_tool_effect, run_id, tool_call_id, verdict, by, note)

    @property
    def _ledger(self) -> "Ledger":
        # Not imported above: a URLconf that names this class must not load pydantic-ai.
        from django_pydantic_agent.contrib.store.ledger import Ledger

        if self.owner is None:
            raise ValueError("a store without an owner has no ledger")
        return Ledger(self.owner, self.scope)

    @staticmethod
    async def _in_thread(operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def call() -> T:
            try:
                return operation(*args, **kwargs)
            finally:
                # The thread may be one that Django does not look after.
                release_connections()

        return await sync_to_async(call)()
