"""Harness records as rows, and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from django_pydantic_agent.contrib.store.fields import to_microseconds
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models.ledger import (
    EFFECT_FIELDS,
    EFFECT_TEXTS,
    EVENT_FIELDS,
    SNAPSHOT_FIELDS,
)
from django_pydantic_agent.contrib.store.querysets import digests
from django_pydantic_agent.contrib.store.rows import Row, as_json
from django_pydantic_agent.log.frames import storable, storable_value
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.attempts import split_attempt

RUN_FIELDS = (
    "run_id",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "metadata",
    "registered_at",
    "registration_id",
)


# The values of `VERDICT`, which people give.
_NO_VERDICT = ("", "", None, "")


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
        # A delegate belongs to the run, whichever attempt has made it.
        parent, _ = split_attempt(record.parent_run_id)
        columns |= {"parent_run_id": _text(parent), **digests(owner, scope, parent=parent)}
    return columns


def event_row(run: int, event: StepEvent) -> Row:
    """Return the values of `EVENT_COLUMNS`."""
    return (run, *_values(event, EVENT_FIELDS), key_digest(event.run_id, event.idempotency_key))


def snapshot_row(run: int, snapshot: ContinuableSnapshot, history: tuple[int, int, int]) -> Row:
    """Return the values of `SNAPSHOT_COLUMNS`; `history` is the reference to the snapshot's messages."""
    about = (len(snapshot.messages), key_digest(snapshot.run_id, snapshot.idempotency_key), False)
    return (run, *_values(snapshot, SNAPSHOT_FIELDS), *history, *about)


def effect_row(run: int, record: ToolEffectRecord, texts: Mapping[str, str]) -> Row:
    """Return the values of `EFFECT_COLUMNS`; `texts` may hold each of `EFFECT_TEXTS`."""
    more = (storable(texts.get(name, "")) for name in EFFECT_TEXTS)
    return (run, *_values(record, EFFECT_FIELDS), digest(record.tool_call_id), *more, *_NO_VERDICT)


def key_digest(run_id: str, key: str | None) -> str | None:
    """Return what tells idempotency keys in a run's rows apart, where each attempt counts anew; None without a key."""
    if key is None:
        return None
    _, attempt = split_attempt(run_id)
    return digest(attempt, key) if attempt else digest(key)


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


def _values(record: object, fields: Sequence[str]) -> list[Any]:
    """Return the fields of a record as the database takes them."""
    return [None if (value := getattr(record, field)) is None else _column(value) for field in fields]


def _column(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, datetime):
        return to_microseconds(value)
    if isinstance(value, dict):
        return as_json(value) if value else "{}"
    return value
