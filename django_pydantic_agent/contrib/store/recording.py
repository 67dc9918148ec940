"""The step store of a live run: it writes through the run's journal and reads what it wrote from memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from pydantic_ai.messages import ModelMessage, ToolReturnPart
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
from django_pydantic_agent.policy.audit import Audit
from django_pydantic_agent.stores.attempts import split_attempt
from django_pydantic_agent.stores.effects import Reason

# What a run does only when all tools that it has called are through.
_BEHIND_TOOLS = frozenset({"model_request_started", "run_completed"})
# What pydantic-ai tells the model of a call that ran out of its time.
_TIMED_OUT = "Timed out after "


class ChangeQueue(Protocol):
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
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    preview: str | None = None

    @property
    def key(self) -> int:
        return self.history.key

    @property
    def open_calls(self) -> list[ToolEffectRecord]:
        """The calls that have started, and of which nobody said that they were cut."""
        started = [effect for effect in self.effects.values() if effect.status == "started"]
        return [effect for effect in started if not self.texts.get(effect.tool_call_id, {}).get("reason")]


class RecordingStepStore(DefaultStepStore):
    """The step store of a live run and of the delegates that run inside it.

    Nothing here waits for the database but the `started` row of a tool, which is committed before the tool runs, and
    the registration of a delegate.
    """

    def __init__(
        self, ledger: Ledger, journal: ChangeQueue, history: DatabaseRunHistory, audit: Audit | None = None
    ) -> None:
        self.owner = ledger.owner
        self.scope = ledger.scope
        self._read = None
        self._journal = journal
        self._numbers = history.changes
        self._live = {journal.run_id: _LiveRun(history)}
        self._audit = audit

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
            if event.kind in _BEHIND_TOOLS:
                await self._fail_open_calls(live)
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
            await self._note_timeouts(live, snapshot.messages[-1:])

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
        texts = live.texts.get(record.tool_call_id, {})
        if record.status != "started":
            texts = {**texts, "reason": ""}
        row = records.effect_row(live.key, record, texts)
        call = digest(record.tool_call_id)
        self._journal.write(
            EffectRecorded(number=next(self._numbers), size=row_size(row), run=live.key, call=call, row=row)
        )
        if record.status == "started":
            await self._journal.settled()
        else:
            live.texts.pop(record.tool_call_id, None)

    def describe(self, run_id: str, tool_call_id: str, **texts: str) -> None:
        """Have the records of a call carry `EFFECT_TEXTS`, until one says that it has ended."""
        if (live := self._live.get(run_id)) is not None:
            live.texts.setdefault(tool_call_id, {}).update(texts)

    def delegate_audit(self, run_id: str) -> Audit | None:
        """Return what is told of the calls of this delegate, None for the run itself."""
        return None if self._audit is None or run_id == self._journal.run_id else replace(self._audit, delegate=run_id)

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

    async def _note_timeouts(self, live: _LiveRun, answers: Sequence[ModelMessage]) -> None:
        """Note which open calls the model is told of as timed out; the harness's own recording does not say so."""
        parts = [part for message in answers for part in message.parts if isinstance(part, ToolReturnPart)]
        texts = [(part.tool_call_id, part.content) for part in parts if isinstance(part.content, str)]
        timed_out = {call for call, text in texts if text.startswith(_TIMED_OUT)}
        for effect in live.open_calls if timed_out else ():
            if effect.tool_call_id in timed_out:
                self.describe(effect.run_id, effect.tool_call_id, reason=Reason.TIMED_OUT)
                await self.record_tool_effect(effect)

    async def _fail_open_calls(self, live: _LiveRun) -> None:
        """Record the end of calls that have put off or refused what they should do, which the harness leaves open."""
        for effect in live.open_calls:
            await self.record_tool_effect(replace(effect, status="failed", ended_at=datetime.now(UTC)))

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
