"""Interrupts in the database: asked with the end of a run, decided in the transaction that accepts another.

Their rows are locked after those of runs and before those of threads.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.db.models import Q
from pydantic_core import from_json

from django_pydantic_agent.contrib.store.effects import settle_all
from django_pydantic_agent.contrib.store.fields import to_microseconds
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Interrupt, ToolEffect
from django_pydantic_agent.contrib.store.models.approvals import InterruptQuerySet
from django_pydantic_agent.contrib.store.rows import Row, as_json, insert
from django_pydantic_agent.exceptions import InterruptDecided
from django_pydantic_agent.log.call_ids import model_id
from django_pydantic_agent.log.frames import storable
from django_pydantic_agent.runs.states import Decision
from django_pydantic_agent.stores.approvals import Answer, AskedCall, StoredInterrupt, asked_interrupts
from django_pydantic_agent.stores.base import NewRun
from django_pydantic_agent.stores.writes import Ending

COLUMNS = (
    "run_id",
    "interrupt_id",
    "interrupt_digest",
    "reason",
    "tool_call_id",
    "tool_name",
    "arguments",
    "message",
    "response_schema",
    "expires_at",
    "decision",
    "answer",
    "decider",
)


def write_asked(endings: Iterable[tuple[int, Ending]], *, using: str) -> None:
    """Write what runs of these keys ask as they end."""
    rows = [row for run, ending in endings for row in _rows(run, ending)]
    insert(connections[using], Interrupt, COLUMNS, rows)


def decide(new: NewRun, run: int, *, using: str) -> None:
    """Write the decisions that the run of key `run` is accepted with; raises `InterruptDecided`."""
    for answer in new.answers:
        open_one = _all(using).undecided().filter(run=answer.run, interrupt_digest=digest(answer.id))
        columns = _decided(answer.decision, run)
        if not open_one.update(answer=as_json(answer.said), decider=storable(new.decider), **columns):
            raise InterruptDecided
        if answer.verdict is not None:
            effects = ToolEffect.objects.using(using).filter(run=answer.run)
            # Compared here, because a collation may take two ids for one.
            keys = [key for key, call in effects.unresolved().values_list("pk", "tool_call_id") if _is_of(answer, call)]
            settle_all(effects.filter(pk__in=keys), answer.verdict, by=new.decider, note=answer.said["reason"] or "")
    if new.gives_up:
        give_up(new.gives_up, Decision.CANCELLED, by=run, using=using)


def give_up(runs: Collection[int], decision: Decision, *, by: int | None = None, using: str) -> list[str]:
    """Decide what is undecided of these runs, inside a transaction; return the ids of what was."""
    locked = _all(using).undecided().filter(run__in=runs).select_for_update().order_by("pk")
    given_up = dict(locked.values_list("pk", "interrupt_id"))
    _all(using).undecided().filter(pk__in=given_up).update(**_decided(decision, by))
    return list(given_up.values())


def open_ids(runs: Collection[int], *, using: str) -> set[tuple[int, str]]:
    """Return the runs' keys and the ids of the interrupts of theirs that can be answered."""
    in_time = Q(expires_at=None) | Q(expires_at__gt=datetime.now(UTC))
    rows = _all(using).undecided().filter(in_time, run__in=runs).values_list("run_id", "interrupt_id")
    return {(run, interrupt_id) for run, interrupt_id in rows}


def read(*, using: str, **conditions: Any) -> list[StoredInterrupt]:
    """Return interrupts in the order in which they were asked."""
    return [
        StoredInterrupt(
            run=row.run_id,
            id=row.interrupt_id,
            tool_call_id=row.tool_call_id,
            call=AskedCall(row.tool_name, row.arguments),
            reason=row.reason,
            expires_at=row.expires_at,
            decision=Decision(row.decision),
            answer=from_json(row.answer) if row.answer else None,
            decided_by=row.decided_by_run,
        )
        for row in _all(using).filter(**conditions).order_by("pk")
    ]


def _is_of(answer: Answer, tool_call_id: str) -> bool:
    return model_id(tool_call_id) == model_id(answer.verdict_on)


def _all(using: str) -> InterruptQuerySet:
    return Interrupt.objects.using(using)


def _decided(decision: Decision, by: int | None) -> dict[str, Any]:
    return {"decision": decision, "decided_by_run": by, "decided_at": datetime.now(UTC)}


def _rows(run: int, ending: Ending) -> Iterable[Row]:
    asked = asked_interrupts(run, ending.interrupts, ending.asked_calls)
    for interrupt, shown in zip(asked, ending.interrupts, strict=True):
        yield (
            run,
            storable(interrupt.id),
            digest(interrupt.id),
            interrupt.reason,
            storable(interrupt.tool_call_id),
            storable(interrupt.call.tool_name),
            storable(interrupt.call.arguments),
            storable(shown.get("message") or ""),
            as_json(shown.get("responseSchema")),
            None if interrupt.expires_at is None else to_microseconds(interrupt.expires_at),
            Decision.PENDING,
            "",
            "",
        )
