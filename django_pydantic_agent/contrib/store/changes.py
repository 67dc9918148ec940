"""Changes of the ledger: made by a step store, applied in the transaction that carries them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.contrib.store import history
from django_pydantic_agent.contrib.store.models import HistoryMessage, Run, Snapshot, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import (
    EFFECT_FIELDS,
    EFFECT_TEXTS,
    EVENT_FIELDS,
    SNAPSHOT_FIELDS,
    VERDICT,
    SnapshotState,
)
from django_pydantic_agent.contrib.store.rows import Row, insert

EVENT_COLUMNS = ("run_id", *EVENT_FIELDS, "key_digest")
HISTORY_COLUMNS = ("history_writer", "history_number", "history_size")
SNAPSHOT_COLUMNS = ("run_id", *SNAPSHOT_FIELDS, *HISTORY_COLUMNS, "message_count", "key_digest", "is_pruned")
EFFECT_COLUMNS = ("run_id", *EFFECT_FIELDS, "call_digest", *EFFECT_TEXTS, *VERDICT)
EFFECT_KEY = ("run_id", "call_digest")
EFFECT_RECORD = (*(name for name in EFFECT_FIELDS if name != "tool_call_id"), *EFFECT_TEXTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change; `number` counts those of one live run, `size` is about its bytes."""

    number: int = 0
    size: int = 0
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRegistered(Change):
    """The harness claims a run that is there; `columns` are what its record says.

    With `is_again` another attempt does so, which changes nothing where an earlier one has.
    """

    run_id: str
    columns: dict[str, Any]
    is_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAppended(Change):
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSaved(Change):
    """A snapshot and the history rows that it is the first to need."""

    row: Row
    history: Sequence[Row]
    is_complete: bool
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecorded(Change):
    """The state of one tool call, known by the digest `call`."""

    call: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryReached(Change):
    """The model's history as of seq `seq`, the rows it is the first to need, and what the run began with."""

    history: Sequence[Row]
    seed: tuple[int, int, int]
    reference: tuple[int, int, int]
    seq: int

    @property
    def columns(self) -> dict[str, int]:
        """What the boundary says about the row of its run."""
        names = ("writer", "number", "size")
        return {
            **{f"seed_{name}": value for name, value in zip(names, self.seed, strict=True)},
            **{f"history_{name}": value for name, value in zip(names, self.reference, strict=True)},
            "boundary_seq": self.seq,
        }


def run_columns(changes: Iterable[Change]) -> dict[int, dict[str, Any]]:
    """Return what the changes say about the rows of runs: preview, whether one can be continued, newest boundary."""
    columns: dict[int, dict[str, Any]] = defaultdict(dict)
    for change in changes:
        if isinstance(change, BoundaryReached):
            columns[change.run] |= change.columns
        elif isinstance(change, SnapshotSaved):
            columns[change.run].setdefault("preview", change.preview)
            if change.is_complete:
                columns[change.run]["is_continuable"] = True
    return columns


def update_runs(connection: BaseDatabaseWrapper, columns: dict[int, dict[str, Any]]) -> None:
    """Write what snapshots say about their runs; the first preview stays."""
    for run, values in columns.items():
        preview = Coalesce(F("preview"), Value(values["preview"]))
        Run.objects.using(connection.alias).filter(pk=run).update(**{**values, "preview": preview})


def apply(connection: BaseDatabaseWrapper, changes: Sequence[Change]) -> None:
    """Write the changes, the rows of each table in order and in one statement.

    Raises `ValueError` where another registration has claimed a run.
    """
    for change in changes:
        if isinstance(change, RunRegistered):
            _claim(connection, change)
    effects = {(change.run, change.call): change.row for change in changes if isinstance(change, EffectRecorded)}
    snapshots = [change for change in changes if isinstance(change, SnapshotSaved)]
    events = [change.row for change in changes if isinstance(change, EventAppended)]
    insert(connection, StepEvent, EVENT_COLUMNS, events)
    insert(connection, ToolEffect, EFFECT_COLUMNS, list(effects.values()), update=EFFECT_RECORD, unique=EFFECT_KEY)
    for_history = (change for change in changes if isinstance(change, SnapshotSaved | BoundaryReached))
    insert(connection, HistoryMessage, history.COLUMNS, [row for change in for_history for row in change.history])
    insert(connection, Snapshot, SNAPSHOT_COLUMNS, [change.row for change in snapshots])
    keep = agent_settings.MAX_SNAPSHOTS_PER_RUN
    if keep is not None:
        for run in {change.run for change in snapshots}:
            prune_snapshots(connection, run, keep)


def _claim(connection: BaseDatabaseWrapper, change: RunRegistered) -> None:
    runs = Run.objects.using(connection.alias).filter(pk=change.run)
    if runs.filter(registered_at=None).update(**change.columns) or change.is_again:
        return
    registration = change.columns["registration_id"]
    if registration is None or not runs.filter(registration_id=registration).exists():
        raise ValueError(f"run {change.run_id!r} is registered already; a run id is single-shot")


def prune_snapshots(connection: BaseDatabaseWrapper, run: int, keep: int) -> None:
    """Hide all snapshots of `run` but the newest `keep`, at least one, and the newest complete one."""
    kept = Snapshot.objects.using(connection.alias).filter(run=run, is_pruned=False).order_by("-pk")
    newest = list(kept.values_list("pk", flat=True)[: max(keep, 1)])
    newest += kept.filter(state=SnapshotState.COMPLETE).values_list("pk", flat=True)[:1]
    kept.exclude(pk__in=newest).order_by().update(is_pruned=True)
