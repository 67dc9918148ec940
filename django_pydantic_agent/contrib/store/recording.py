"""The step store of a live run: it writes through the run's journal and reads what it wrote from memory."""

from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from django_pydantic_agent.contrib.store import records
from django_pydantic_agent.contrib.store.changes import (
    Change,
    EffectRecorded,
    EventAppended,
    RunRegistered,
    SnapshotSaved,
)
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.ledger import Ledger, log_skipped
from django_pydantic_agent.contrib.store.rows import ROW_BYTES, row_size
from django_pydantic_agent.contrib.store.run_history import DatabaseRunHistory
from django_pydantic_agent.log.preview import history_preview
from django_pydantic_agent.stores.attempts import split_attempt


class Journal(Protocol):
    """What queues the changes of one live run for the recorder."""

    key: int
    run_id: str

    def write(self, change: Change) -> None: ...

    async def settled(self) -> None:
        """Wait until everything written so far is committed."""
        ...


@dataclass(slots=True)
class _LiveRun:
    """What was recorded of a run, which nobody else writes meanwhile."""

    history: DatabaseRunHistory
    record: RunRecord | None = None
    event_keys: set[str] = field(default_factory=set)
    snapshot_keys: set[str] = field(default_factory=set)
    effects: dict[str, ToolEffectRecord] = field(default_factory=dict)
    preview: str | None = None

    @property
    def key(self) -> int:
        return self.history.key


class RecordingStepStore(DefaultStepStore):
    """The step store of a live run and of the delegates that run inside it.

    Nothing here waits for the database but the `started` row of a tool, which is committed before the tool runs, and
    the registration of a delegate.
    """

    def __init__(self, ledger: Ledger, journal: Journal, history: DatabaseRunHistory) -> None:
        self.owner = ledger.owner
        self.scope = ledger.scope
        self._read = None
        self._journal = journal
        self._numbers = history.changes
        self._live = {journal.run_id: _LiveRun(history)}

    async def register_run(self, record: RunRecord) -> None:
        live = self._live.get(record.run_id)
        if live is None:
            key = await self._in_thread(self._ledger.register_run, record)
            self._live[record.run_id] = _LiveRun(DatabaseRunHistory(key), record=replace(record))
        elif live.record is None:
            live.record = replace(record)
            columns = records.run_columns(record, self._ledger.owner, self.scope)
            self._journal.write(
                RunRegistered(
                    number=next(self._numbers),
                    size=ROW_BYTES,
                    run=live.key,
                    run_id=record.run_id,
                    columns=columns,
                    is_again=bool(split_attempt(record.run_id)[1]),
                )
            )
        elif record.registration_id is None or record.registration_id != live.record.registration_id:
            raise ValueError(f"run {record.run_id!r} is registered already; a run id is single-shot")

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        live = self._live.get(run_id)
        return await super().get_run(run_id=run_id) if live is None else live.record

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        await self._journal.settled()
        return await super().list_runs(parent_run_id=parent_run_id, conversation_id=conversation_id)

    async def append_event(self, event: StepEvent) -> None:
        live = self._live.get(event.run_id)
        if live is None:
            await super().append_event(event)
        elif _is_new(event.idempotency_key, live.event_keys):
            row = records.event_row(live.key, event)
            self._journal.write(EventAppended(number=next(self._numbers), size=row_size(row), run=live.key, row=row))

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        await self._journal.settled()
        return await super().list_events(run_id=run_id)

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        live = self._live.get(snapshot.run_id)
        if live is None:
            await super().save_snapshot(snapshot)
        elif snapshot.idempotency_key not in live.snapshot_keys:
            try:
                change = self._snapshot_saved(live, snapshot)
            except Exception as error:
                log_skipped(snapshot, error)
                return
            _is_new(snapshot.idempotency_key, live.snapshot_keys)
            self._journal.write(change)

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        await self._journal.settled()
        return await super().latest_snapshot(run_id=run_id, include_interrupted=include_interrupted)

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        await self._journal.settled()
        return await super().list_snapshots(run_id=run_id, include_interrupted=include_interrupted)

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        live = self._live.get(record.run_id)
        if live is None:
            await super().record_tool_effect(record)
            return
        live.effects[record.tool_call_id] = replace(record)
        row = records.effect_row(live.key, record)
        call = digest(record.tool_call_id)
        self._journal.write(
            EffectRecorded(number=next(self._numbers), size=row_size(row), run=live.key, call=call, row=row)
        )
        if record.status == "started":
            await self._journal.settled()

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        live = self._live.get(run_id)
        if live is None:
            return await super().get_tool_effect(run_id=run_id, tool_call_id=tool_call_id)
        return live.effects.get(tool_call_id)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        live = self._live.get(run_id)
        if live is None:
            return await super().list_unresolved_tool_effects(run_id=run_id)
        return [effect for effect in live.effects.values() if effect.status == "started"]

    def _snapshot_saved(self, live: _LiveRun, snapshot: ContinuableSnapshot) -> SnapshotSaved:
        """Return the change that saves a snapshot; the history moves on only if there is one."""
        rows = live.history.write(snapshot.messages)
        if live.preview is None:
            live.preview = history_preview(snapshot.messages)
        row = records.snapshot_row(live.key, snapshot, live.history.reference)
        return SnapshotSaved(
            number=next(self._numbers),
            size=row_size(row) + sum(map(row_size, rows)),
            run=live.key,
            row=row,
            history=rows,
            is_complete=snapshot.state == "complete",
            preview=live.preview,
        )


def _is_new(key: str | None, known: set[str]) -> bool:
    """Return whether no record of this idempotency key came before, and remember it."""
    if key is None:
        return True
    if key in known:
        return False
    known.add(key)
    return True
