"""Harness records as rows, and back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from django_pydantic_agent.contrib.store.fields import to_microseconds
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.querysets import digests
from django_pydantic_agent.contrib.store.rows import Row, as_json
from django_pydantic_agent.log.frames import storable, storable_value
from django_pydantic_agent.ownership import Owner

RUN_FIELDS = (
    "run_id",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "metadata",
    "registered_at",
    "registration_id",
)
EVENT_FIELDS = (
    "kind",
    "step_index",
    "timestamp",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "tool_call_id",
    "tool_name",
    "error",
    "metadata",
    "idempotency_key",
)
SNAPSHOT_FIELDS = (
    "state",
    "step_index",
    "timestamp",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "idempotency_key",
)
EFFECT_FIELDS = (
    "tool_call_id",
    "tool_name",
    "status",
    "started_at",
    "ended_at",
    "idempotency_key",
    "effect_summary",
)


def run_columns(record: RunRecord, owner: Owner, scope: str) -> dict[str, Any]:
    """Return what registering `record` sets on its run; a parent that the engine has set stays."""
    columns = {
        "conversation_id": _text(record.conversation_id),
        "agent_name": _text(record.agent_name),
        "metadata": storable_value(record.metadata),
        "registered_at": record.started_at,
        "registration_id": _text(record.registration_id),
        **digests(owner, scope, conversation=record.conversation_id),
    }
    if record.parent_run_id is not None:
        columns |= {
            "parent_run_id": _text(record.parent_run_id),
            **digests(owner, scope, parent=record.parent_run_id),
        }
    return columns


def event_row(run: int, event: StepEvent) -> Row:
    """Return the values of `EVENT_COLUMNS`."""
    return (
        run,
        event.kind,
        event.step_index,
        to_microseconds(event.timestamp),
        _text(event.conversation_id),
        _text(event.parent_run_id),
        _text(event.agent_name),
        _text(event.tool_call_id),
        _text(event.tool_name),
        _text(event.error),
        as_json(event.metadata) if event.metadata else "{}",
        _text(event.idempotency_key),
        key_digest(event.idempotency_key),
    )


def snapshot_row(run: int, snapshot: ContinuableSnapshot, history: tuple[int, int, int]) -> Row:
    """Return the values of `SNAPSHOT_COLUMNS`; `history` is the reference to the snapshot's messages."""
    return (
        run,
        snapshot.state,
        snapshot.step_index,
        to_microseconds(snapshot.timestamp),
        _text(snapshot.conversation_id),
        _text(snapshot.parent_run_id),
        _text(snapshot.agent_name),
        *history,
        len(snapshot.messages),
        _text(snapshot.idempotency_key),
        key_digest(snapshot.idempotency_key),
        False,
    )


def effect_row(run: int, record: ToolEffectRecord) -> Row:
    """Return the values of `EFFECT_COLUMNS`."""
    return (
        run,
        storable(record.tool_call_id),
        digest(record.tool_call_id),
        storable(record.tool_name),
        record.status,
        to_microseconds(record.started_at),
        None if record.ended_at is None else to_microseconds(record.ended_at),
        _text(record.idempotency_key),
        _text(record.effect_summary),
        "",
    )


def key_digest(key: str | None) -> str | None:
    """Return what tells idempotency keys apart; None where a record has none."""
    return None if key is None else digest(key)


def to_run(row: Mapping[str, Any]) -> RunRecord:
    fields: dict[str, Any] = dict(row)
    started_at: datetime = fields.pop("registered_at")
    return RunRecord(started_at=started_at, **fields)


def to_event(run_id: str, row: Mapping[str, Any]) -> StepEvent:
    return StepEvent(run_id=run_id, **row)


def to_snapshot(run_id: str, row: Mapping[str, Any], messages: list[ModelMessage]) -> ContinuableSnapshot:
    return ContinuableSnapshot(run_id=run_id, messages=messages, **{name: row[name] for name in SNAPSHOT_FIELDS})


def to_effect(run_id: str, row: Mapping[str, Any]) -> ToolEffectRecord:
    return ToolEffectRecord(run_id=run_id, **row)


def _text(text: str | None) -> str | None:
    return None if text is None else storable(text)
