"""Threads and runs, or all that an owner has, as one JSON object per line."""

from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest
from typing import Any

from django.db import connections, models, router
from pydantic_core import from_json

from django_pydantic_agent.contrib.store.fields import DigestField
from django_pydantic_agent.contrib.store.history import HistoryReader
from django_pydantic_agent.contrib.store.messages import SEPARATOR
from django_pydantic_agent.contrib.store.models import (
    Interrupt,
    Run,
    Snapshot,
    StepEvent,
    Thread,
    ThreadMessage,
    ToolEffect,
)
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.ownership import Owner

Line = dict[str, Any]

LEDGER: tuple[type[models.Model], ...] = (StepEvent, Snapshot, ToolEffect, Interrupt)
"""Of which models each row of a run is a line, with its columns as they are."""

EVENT_BYTES = 1024 * 1024
"""About how much of a log is read at once."""

NOTHING = (0, 0, 0)

_HISTORY = ("history_writer", "history_number", "history_size")
_INTERNAL = {"folded", "body_digest", "content_digest", "seed_writer", "seed_number", "seed_size", *_HISTORY}


def export(owner: Owner) -> Iterator[Line]:
    """Yield each thread with its messages, then each run with its events, ledger and what it added for the model.

    Each line says by `type` what it is. Threads and runs are named by their keys in the database.
    """
    alias = router.db_for_write(Run)
    yield from export_threads(Thread.objects.using(alias).of_owner(owner))
    yield from export_runs(Run.objects.using(alias).of_owner(owner))


def export_threads(threads: "models.QuerySet[Thread]") -> Iterator[Line]:
    """Yield each of these threads with its messages, in the form of `export`."""
    for thread in threads.order_by("pk").iterator():
        yield {"type": "thread", **_columns(thread)}
        yield from _messages(thread, threads.db)


def export_runs(runs: "models.QuerySet[Run]") -> Iterator[Line]:
    """Yield each of these runs with all that is kept of it, in the form of `export`."""
    for run in runs.order_by("pk").iterator():
        yield {"type": "run", **_columns(run)}
        yield from _events(run, runs.db)
        for model in LEDGER:
            rows = model._base_manager.using(runs.db).filter(run=run.pk).order_by("pk")
            yield from ({"type": model._meta.model_name, **_columns(row)} for row in rows.iterator())
        yield from _model_messages(run, runs.db)


def _messages(thread: Thread, alias: str) -> Iterator[Line]:
    order = ("turn", "run", "place", "piece")
    body = b""
    for row in ThreadMessage.objects.using(alias).filter(thread=thread).order_by(*order).iterator():
        # A message that has become shorter leaves pieces behind.
        if row.piece < row.pieces:
            body += bytes(row.body)
        if row.piece == row.pieces - 1:
            about = {"thread": thread.pk, "run": row.run, "superseded_by": row.superseded_by}
            yield {"type": "message", **about, "message": from_json(body)}
            body = b""


def _events(run: Run, alias: str) -> Iterator[Line]:
    log = RunLog(run=run.pk, using=alias)
    after = log.first_seq - 1
    while frames := log.read(after=after, max_bytes=EVENT_BYTES):
        for seq, frame in enumerate(frames, after + 1):
            yield {"type": "event", "run": run.pk, "seq": seq, "event": from_json(frame)}
        after += len(frames)


def _model_messages(run: Run, alias: str) -> Iterator[Line]:
    """Yield what the run added to the model's messages that it went on from."""
    # What was saved without the engine is known by its snapshots only.
    newest = Snapshot.objects.using(alias).filter(run=run).order_by("-pk").values_list(*_HISTORY).first()
    saved = (run.history_writer, run.history_number, run.history_size)
    seed = (run.seed_writer, run.seed_number, run.seed_size)
    reader = HistoryReader(connections[alias])
    before, after = (
        reader.read(*reference)[0].split(SEPARATOR)
        for reference in (seed, saved if run.history_size else newest or NOTHING)
    )
    pairs = zip_longest(before, after)
    start = next((place for place, (old, new) in enumerate(pairs) if old != new), len(before))
    for message in filter(None, after[start:]):
        yield {"type": "model_message", "run": run.pk, "message": from_json(message)}


def _columns(row: models.Model) -> Line:
    return {
        field.attname: _value(getattr(row, field.attname))
        for field in row._meta.concrete_fields
        if not isinstance(field, DigestField) and field.name not in _INTERNAL
    }


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        try:
            return from_json(data) if data else None
        except ValueError:
            return data.decode(errors="replace")
    return value
