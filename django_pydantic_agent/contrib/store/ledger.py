"""The ledger of one owner, read and written at once; what a live run records goes through its journal instead."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import IntegrityError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Min, QuerySet
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store import models, records
from django_pydantic_agent.contrib.store.changes import (
    HISTORY_COLUMNS,
    EffectRecorded,
    EventAppended,
    RunRegistered,
    SnapshotSaved,
    apply,
    run_columns,
    update_runs,
)
from django_pydantic_agent.contrib.store.effects import effects_of, settle
from django_pydantic_agent.contrib.store.history import Chain, HistoryReader
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.messages import Recording, common_prefix, dump, load
from django_pydantic_agent.contrib.store.models.ledger import (
    EFFECT_FIELDS,
    EFFECT_TEXTS,
    EVENT_FIELDS,
    SNAPSHOT_FIELDS,
    VERDICT,
    SnapshotState,
)
from django_pydantic_agent.contrib.store.packets import within_packets
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.contrib.store.run_store import new_row
from django_pydantic_agent.log.frames import storable
from django_pydantic_agent.log.preview import history_preview
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.attempts import split_attempt
from django_pydantic_agent.stores.effects import StoredEffect, Verdict

logger = logging.getLogger(__name__)

T = TypeVar("T")


def log_skipped(snapshot: ContinuableSnapshot, error: Exception) -> None:
    """Say that a boundary could not be saved; the snapshots before it stay valid."""
    place = (snapshot.run_id, snapshot.step_index)
    logger.warning("The snapshot of run %r at step %d cannot be saved.", *place, exc_info=error)


class Ledger:
    """The rows of one owner in one scope, as harness records. Synchronous; each write is a transaction of its own."""

    def __init__(self, owner: Owner, scope: str) -> None:
        self.owner = owner
        self.scope = scope

    def register_run(self, record: RunRecord) -> int:
        """Claim or create a run and return its key.

        Raises `ValueError` where the run id is registered already, unless by the same registration.
        """
        columns = records.run_columns(record, self.owner, self.scope)

        def register(connection: BaseDatabaseWrapper, run: int) -> int:
            apply(connection, [RunRegistered(run=run, run_id=record.run_id, columns=columns)])
            return run

        return self._write(record.run_id, register)

    def get_run(self, run_id: str) -> RunRecord | None:
        row = self._run(run_id).exclude(registered_at=None).values(*records.RUN_FIELDS).first()
        return None if row is None else records.to_run({**row, "run_id": run_id})

    def list_runs(self, parent_run_id: str | None, conversation_id: str | None) -> list[RunRecord]:
        ids = {"parent": parent_run_id, "conversation": conversation_id}
        runs = self._runs.for_owner(
            self.owner, self.scope, **{name: text for name, text in ids.items() if text is not None}
        )
        rows = runs.exclude(registered_at=None).order_by("registered_at", "pk").values(*records.RUN_FIELDS)
        return [records.to_run(row) for row in rows]

    def append_event(self, event: StepEvent) -> None:
        def append(connection: BaseDatabaseWrapper, run: int) -> None:
            if not _is_repeated(connection, models.StepEvent, run, event):
                apply(connection, [EventAppended(run=run, row=records.event_row(run, event))])

        self._write(event.run_id, append)

    def list_events(self, run_id: str) -> list[StepEvent]:
        rows = self._of_run(models.StepEvent, run_id).order_by("pk").values(*EVENT_FIELDS)
        return [records.to_event(run_id, row) for row in rows]

    def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        try:
            body = dump(snapshot.messages)
        except Exception as error:
            log_skipped(snapshot, error)
            return

        def save(connection: BaseDatabaseWrapper, run: int) -> None:
            if _is_repeated(connection, models.Snapshot, run, snapshot):
                return
            before, chain = self._newest_history(connection, run, snapshot.parent_run_id)
            same = common_prefix(before, body)
            numbers = models.HistoryMessage.objects.using(connection.alias).filter(writer=run)
            number = min(numbers.aggregate(lowest=Min("number"))["lowest"] or 0, 0) - 1
            chain, rows = chain.cut(same).extend(run, number, body[same:])
            change = SnapshotSaved(
                run=run,
                row=records.snapshot_row(run, snapshot, chain.reference),
                history=rows,
                is_complete=snapshot.state == "complete",
                preview=history_preview(snapshot.messages),
            )
            apply(connection, [change])
            update_runs(connection, run_columns([change]))

        self._write(snapshot.run_id, save)

    def latest_snapshot(self, run_id: str, include_interrupted: bool) -> tuple[ContinuableSnapshot, Recording] | None:
        """Return a snapshot together with what a run that continues it has to know of its history."""
        row = self._snapshots(run_id, include_interrupted).last()
        if row is None:
            return None
        history, chain = HistoryReader(connections[self._alias]).read(*_reference(row))
        messages = load(history)
        return records.to_snapshot(run_id, row, messages), Recording.of(chain, history, messages)

    def list_snapshots(self, run_id: str, include_interrupted: bool) -> list[ContinuableSnapshot]:
        rows = list(self._snapshots(run_id, include_interrupted))
        reader = HistoryReader(connections[self._alias])
        reader.preload(row["history_writer"] for row in rows)
        return [records.to_snapshot(run_id, row, load(reader.read(*_reference(row))[0])) for row in rows]

    def record_tool_effect(self, record: ToolEffectRecord) -> None:
        call = digest(record.tool_call_id)

        def write(connection: BaseDatabaseWrapper, run: int) -> None:
            kept = models.ToolEffect.objects.using(connection.alias).filter(run=run, call_digest=call)
            row = records.effect_row(run, record, kept.values(*EFFECT_TEXTS).first() or {})
            apply(connection, [EffectRecorded(run=run, call=call, row=row)])

        self._write(record.run_id, write)

    def get_tool_effect(self, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        effects = self._of_run(models.ToolEffect, run_id).filter(call_digest=digest(tool_call_id))
        row = effects.values(*EFFECT_FIELDS).first()
        return None if row is None else records.to_effect(run_id, {**row, "tool_call_id": tool_call_id})

    def list_unresolved_tool_effects(self, run_id: str) -> list[ToolEffectRecord]:
        effects = (
            models.ToolEffect.objects.using(self._alias).filter(run__in=self._run(run_id)).unresolved().order_by("pk")
        )
        return [records.to_effect(run_id, row) for row in effects.values(*EFFECT_FIELDS)]

    def list_tool_effects(self, run_id: str) -> list[StoredEffect]:
        """Return the effects of a run and of its delegates, in the order in which the calls began."""
        run = self._run(run_id).values_list("pk", flat=True).first()
        if run is None:
            return []
        rows = effects_of(run, using=self._alias).values("pk", "run__run_id", *EFFECT_FIELDS, *EFFECT_TEXTS, *VERDICT)
        return [StoredEffect(key=row.pop("pk"), run_id=row.pop("run__run_id"), **row) for row in rows]

    def settle_tool_effect(
        self, run_id: str, tool_call_id: str, verdict: Verdict, by: str, note: str
    ) -> tuple[StoredEffect, bool] | None:
        """Give a verdict on the call of a run or of its delegates, of several of this id on the unresolved one.

        Returns the effect as it is now and whether this verdict counts, None where the run has no such call.
        """
        call = self._call(run_id, tool_call_id)
        if call is None:
            return None
        won = settle(call.key, verdict, by=by, note=note)
        [now] = [effect for effect in self.list_tool_effects(run_id) if effect.key == call.key]
        return now, won

    def _call(self, run_id: str, tool_call_id: str) -> StoredEffect | None:
        calls = [effect for effect in self.list_tool_effects(run_id) if effect.tool_call_id == storable(tool_call_id)]
        return min(calls, key=lambda effect: not effect.is_unresolved, default=None)

    @property
    def _alias(self) -> str:
        return router.db_for_write(models.Run)

    @property
    def _runs(self) -> RunQuerySet:
        return models.Run.objects.using(self._alias)

    def _run(self, run_id: str) -> RunQuerySet:
        """Return the row of a run, which all attempts at it share."""
        return self._runs.for_owner(self.owner, self.scope, run=split_attempt(run_id)[0])

    def _of_run(self, model: Any, run_id: str) -> "QuerySet[Any]":
        rows: QuerySet[Any] = model.objects.using(self._alias).filter(run__in=self._run(run_id))
        return rows

    def _snapshots(self, run_id: str, include_interrupted: bool) -> "QuerySet[Any]":
        snapshots = self._of_run(models.Snapshot, run_id).filter(is_pruned=False).order_by("pk")
        if not include_interrupted:
            snapshots = snapshots.filter(state=SnapshotState.COMPLETE)
        return snapshots.values(*SNAPSHOT_FIELDS, *HISTORY_COLUMNS)

    def _newest_history(
        self, connection: BaseDatabaseWrapper, run: int, parent_run_id: str | None
    ) -> tuple[bytes, Chain]:
        """Return the history that the next snapshot of `run` most likely begins with."""
        snapshots = models.Snapshot.objects.using(connection.alias).order_by("-pk")
        references = snapshots.values(*HISTORY_COLUMNS)
        row = references.filter(run=run).first()
        if row is None and parent_run_id is not None:
            row = references.filter(run__in=self._run(parent_run_id)).first()
        return (b"", Chain()) if row is None else HistoryReader(connection).read(*_reference(row))

    def _write(self, run_id: str, change: Callable[[BaseDatabaseWrapper, int], T]) -> T:
        """Apply a change to a run in one transaction, tried again while the database is locked or away."""
        alias = self._alias

        def attempt() -> T:
            with transaction.atomic(using=alias), within_packets(alias):
                return change(connections[alias], self._lock(run_id, alias))

        def attempt_twice() -> T:
            try:
                return attempt()
            except IntegrityError:
                # Somebody else has made the row at the same time.
                return attempt()

        return patiently(attempt_twice)

    def _lock(self, run_id: str, alias: str) -> int:
        """Return the key of a run whose row is locked until the transaction ends, and made where it is not there."""
        # An update rather than SELECT FOR UPDATE: SQLite has no row locks and wants the first statement to write.
        runs = self._run(run_id)
        if runs.update(ledger_seq=F("ledger_seq")):
            return int(runs.values_list("pk", flat=True).get())
        row = new_row(self.owner, self.scope, run_id=run_id, is_ledger_only=True, created_at=datetime.now(UTC))
        row.save(using=alias, force_insert=True)
        key: int = row.pk
        return key


def _is_repeated(
    connection: BaseDatabaseWrapper, model: Any, run: int, record: StepEvent | ContinuableSnapshot
) -> bool:
    """Return whether a row of the record's idempotency key is there."""
    key = records.key_digest(record.run_id, record.idempotency_key)
    if key is None:
        return False
    repeated: bool = model.objects.using(connection.alias).filter(run=run, key_digest=key).exists()
    return repeated


def _reference(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["history_writer"], row["history_number"], row["history_size"]
