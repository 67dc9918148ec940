"""The group commit: what the runs of one process have queued, in one transaction."""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.contrib.store import approvals
from django_pydantic_agent.contrib.store.changes import Change, apply, run_columns, update_runs
from django_pydantic_agent.contrib.store.effects import note_reason
from django_pydantic_agent.contrib.store.fields import to_microseconds
from django_pydantic_agent.contrib.store.models import Interrupt, Run, RunFrames
from django_pydantic_agent.contrib.store.packets import within_packets
from django_pydantic_agent.contrib.store.rows import as_json, insert
from django_pydantic_agent.contrib.store.run_log import FRAME_COLUMNS, stretch_rows
from django_pydantic_agent.exceptions import LeaseLost
from django_pydantic_agent.runs.states import RunStatus, sources_of
from django_pydantic_agent.stores.writes import Ending, RunWrite


def commit(writes: Sequence[RunWrite], *, using: str) -> list[Exception | None]:
    """Write what several runs have queued in one transaction.

    Returns for each write None or why it was left out, and raises what the database raises, with nothing written.
    """
    results: list[Exception | None] = [None] * len(writes)
    with transaction.atomic(using=using), within_packets(using):
        connection = connections[using]
        applied: list[RunWrite] = []
        # By key, the order in which every transaction locks runs.
        for index in sorted(range(len(writes)), key=lambda index: writes[index].key):
            write = writes[index]
            if _advance(connection, write):
                applied.append(write)
            elif not _is_committed(connection, write):
                results[index] = LeaseLost("the run goes on elsewhere, has ended or is gone")
        ends = [(write.key, write.ending) for write in applied if write.ending is not None and write.ending.interrupts]
        approvals.write_asked(ends, using=using)
        for write in applied:
            write.save_turns()
            if write.ending is not None and write.ending.interrupts:
                write.asks_nobody = not Interrupt.objects.using(using).undecided().filter(run=write.key).exists()
        frames = [
            row
            for write in applied
            if write.all_frames
            for row in stretch_rows(write.key, write.first_seq, write.all_frames)
        ]
        insert(connection, RunFrames, FRAME_COLUMNS, frames)
        apply(connection, [cast("Change", change) for write in applied for change in write.ledger])
        for write in applied:
            if write.ending is not None and write.ending.unresolved:
                note_reason(write.key, write.ending.unresolved, using=using)
    return results


def _advance(connection: BaseDatabaseWrapper, write: RunWrite) -> bool:
    """Append to the run in one conditional statement; False where the run is not at the seq before the write."""
    changes = [cast("Change", change) for change in write.ledger]
    about = run_columns(changes)
    columns: dict[str, Any] = {"last_seq": write.last_seq, **about.pop(write.key, {})}
    where = ["id = %s", "epoch = %s", "last_seq = %s"]
    state: list[Any] = [write.key, write.epoch, write.first_seq - 1]
    if changes:
        columns["ledger_seq"] = changes[-1].number
        where.append("ledger_seq < %s")
        state.append(changes[0].number)
    if write.begins:
        columns["status"] = RunStatus.RUNNING
        where.append("status = %s")
        state.append(RunStatus.QUEUED)
    if write.ending is not None:
        columns |= _ending_columns(write.ending)
        if not write.begins:
            sources = sources_of(write.ending.status)
            where.append(f"status IN ({', '.join(['%s'] * len(sources))})")
            state += sources
    quote = connection.ops.quote_name
    assignments = ", ".join(
        f"{quote(name)} = COALESCE(preview, %s)" if name == "preview" else f"{quote(name)} = %s" for name in columns
    )
    table = quote(Run._meta.db_table)
    with connection.cursor() as cursor:
        sql = f"UPDATE {table} SET {assignments} WHERE {' AND '.join(where)}"  # noqa: S608
        cursor.execute(sql, [*columns.values(), *state])
        if cursor.rowcount != 1:
            return False
    update_runs(connection, about)
    return True


def _is_committed(connection: BaseDatabaseWrapper, write: RunWrite) -> bool:
    """Return whether an earlier try, whose COMMIT seemed to fail, has written this write."""
    row = (
        Run.objects.using(connection.alias)
        .filter(pk=write.key)
        .values_list("epoch", "last_seq", "ledger_seq", "status")
        .first()
    )
    if row is None:
        return False
    epoch, last_seq, ledger_seq, status = row
    return (
        (epoch, last_seq) == (write.epoch, write.last_seq)
        and (not write.ledger or ledger_seq >= cast("Change", write.ledger[-1]).number)
        and (write.ending is None or status == write.ending.status)
    )


def _ending_columns(ending: Ending) -> dict[str, Any]:
    return {
        "status": ending.status,
        "finished_at": to_microseconds(datetime.now(UTC)),
        "error": None if ending.error is None else as_json(ending.error),
        "interrupts": as_json(list(ending.interrupts)),
        "pending_calls": as_json(list(ending.pending_calls)),
        "output_message_ids": as_json(list(ending.message_ids)),
        "usage": None if ending.usage is None else as_json(ending.usage),
        "timing": None if ending.timing is None else as_json(ending.timing),
        "folded": zlib.compress(b"\n".join(ending.folded)) if ending.folded else b"",
    }
