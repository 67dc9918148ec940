"""What runs write into their threads, each time inside the transaction that also writes the run.

Locks are taken in the order in which every transaction takes them: runs by key, then the thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q, QuerySet

from django_pydantic_agent.contrib.store.approvals import give_up
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run, Thread, ThreadMessage
from django_pydantic_agent.contrib.store.querysets import digests
from django_pydantic_agent.contrib.store.rows import Row, as_json, insert, pieces
from django_pydantic_agent.exceptions import ThreadChanged
from django_pydantic_agent.log.frames import JsonObject, storable, storable_value
from django_pydantic_agent.log.preview import preview
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import Decision
from django_pydantic_agent.stores.conversations import TurnSave, TurnStart
from django_pydantic_agent.stores.writes import Ending
from django_pydantic_agent.threads.branch import IMPORTED, content_digest

MESSAGE_KEY = ("thread_id", "turn", "run", "place", "piece")
MESSAGE_CONTENT = ("pieces", "message_id", "role", "content_digest", "through_seq", "body")
MESSAGE_COLUMNS = (*MESSAGE_KEY, "superseded_by", *MESSAGE_CONTENT)


def accept(start: TurnStart, *, scope: str, run: int, using: str) -> int:
    """Write an accepted turn and return the thread's new revision.

    Raises `ThreadChanged` where the thread is not at `start.revision` any more.
    """
    thread = _opened(start, scope, using)
    begins = start.continues is None
    turn = thread.next_turn if start.continues is None else _turn_of(thread, start.continues, using)
    replaced = _find_replaced(start, thread, using)
    if replaced is not None:
        replaced.mark_runs(run)
    changes: dict[str, Any] = {
        "revision": thread.revision + 1,
        "updated_at": datetime.now(UTC),
        "next_turn": thread.next_turn + begins,
        "turns": thread.turns + begins if replaced is None else replaced.turns_besides(turn) + 1,
        "waiting_run": None,
    }
    if thread.preview is None:
        changes["preview"] = preview([*start.imported, *start.messages])
    if not Thread.objects.using(using).filter(pk=thread.pk, revision=thread.revision).update(**changes):
        raise ThreadChanged
    if replaced is not None:
        replaced.mark_messages(run)
    Run.objects.using(using).filter(pk=run).update(in_thread=thread, turn=turn)
    rows = [
        row
        for number, messages in ((IMPORTED, start.imported), (turn, start.messages))
        for place, message in enumerate(messages)
        for row in _message_rows((thread.pk, number, run, place), message, through_seq=1)
    ]
    insert(connections[using], ThreadMessage, MESSAGE_COLUMNS, rows)
    return thread.revision + 1


def save(saved: TurnSave, *, using: str) -> None:
    """Write the new and changed messages of a run in one statement, and the state in another where it was written.

    What a run writes after it was replaced is replaced too, and changes no state.
    """
    if saved.has_state:
        written = Run.objects.using(using).filter(pk=saved.run, superseded_by=None).values("in_thread")[:1]
        Thread.objects.using(using).filter(pk=written).update(**_state_columns(saved))
    _save_messages(saved, using)


def end(saved: TurnSave, ending: Ending, *, using: str) -> int:
    """Write the last of a run and what it waits for; return the thread's new revision, 0 where the thread is gone."""
    part = Run.objects.using(using).filter(pk=saved.run).values_list("in_thread", "superseded_by").first()
    if part is None:
        return 0
    thread, superseded_by = part
    changes: dict[str, Any] = {"revision": F("revision") + 1, "updated_at": datetime.now(UTC)}
    if superseded_by is None and saved.has_state:
        changes |= _state_columns(saved)
    if superseded_by is None and (ending.interrupts or ending.pending_calls):
        changes |= {
            "waiting_run": saved.run,
            "open_calls": storable_value(list(ending.pending_calls)),
            "open_interrupts": storable_value(list(ending.interrupts)),
        }
    elif ending.interrupts:
        give_up([saved.run], Decision.CANCELLED, using=using)
    threads = Thread.objects.using(using).filter(pk=thread)
    threads.update(**changes)
    # After the thread: on MariaDB a new message locks its thread for others to read, and two could not both go on.
    _save_messages(saved, using)
    return threads.values_list("revision", flat=True).first() or 0


def _save_messages(saved: TurnSave, using: str) -> None:
    key = saved.run
    rows = [
        row
        for place, message in saved.messages
        for row in _message_rows((key, key, key, place), message, through_seq=saved.through_seq, superseded_by=key)
    ]
    connection = connections[using]
    insert(
        connection,
        ThreadMessage,
        MESSAGE_COLUMNS,
        rows,
        update=MESSAGE_CONTENT,
        unique=MESSAGE_KEY,
        computed=_columns_of_run(connection, thread_id="in_thread_id", turn="turn", superseded_by="superseded_by"),
    )


def _state_columns(saved: TurnSave) -> dict[str, Any]:
    return {"state": as_json(saved.state).encode(), "state_run": saved.run, "state_seq": saved.through_seq}


def owner_columns(owner: Owner, scope: str, thread_id: str) -> dict[str, Any]:
    """Return the columns that say whose a thread is."""
    return {
        "owner": storable(owner.key),
        "scope": storable(scope),
        "thread_id": storable(thread_id),
        "owner_digest": digest(owner.key),
        "partition_digest": digest(owner.key, scope),
        **digests(owner, scope, thread=thread_id),
    }


@dataclass(frozen=True, slots=True)
class _Replaced:
    """What an accepted run replaces: the rows of the current branch behind a place.

    `restored` are rows that an earlier replacement took away and that are current again.
    """

    thread: Thread
    using: str
    behind: Q
    runs_behind: Q
    restored: Q | None = None
    runs_restored: Q | None = None

    @property
    def _messages(self) -> "QuerySet[ThreadMessage]":
        return ThreadMessage.objects.using(self.using).filter(thread=self.thread)

    def mark_runs(self, run: int) -> None:
        runs = Run.objects.using(self.using).filter(in_thread=self.thread)
        touched = self.runs_behind if self.runs_restored is None else self.runs_behind | self.runs_restored
        keys = list(runs.filter(touched).select_for_update().order_by("pk").values_list("pk", flat=True))
        if keys:
            _mark(runs, run, self.runs_behind, self.runs_restored)

    def mark_messages(self, run: int) -> None:
        _mark(self._messages, run, self.behind, self.restored)

    def turns_besides(self, turn: int) -> int:
        """Return how many turns are in the branch that is left, `turn` not counted."""
        stays = Q(superseded_by=None) & ~self.behind
        if self.restored is not None:
            stays |= self.restored
        left = self._messages.filter(stays, piece=0).exclude(turn__in=(IMPORTED, turn))
        return left.order_by().values("turn").distinct().count()


def _mark(rows: "QuerySet[Any]", run: int, behind: Q, restored: Q | None) -> None:
    rows.filter(behind, superseded_by=None).update(superseded_by=run)
    if restored is not None:
        rows.filter(restored).update(superseded_by=None)


def _find_replaced(start: TurnStart, thread: Thread, using: str) -> _Replaced | None:
    if start.follows is not None:
        turn, run = _turn_of(thread, start.follows, using), start.follows
        until, runs_until = Q(turn__lte=turn, run__lte=run), Q(turn__lte=turn, pk__lte=run)
        since = Q(superseded_by__gt=run)
        return _Replaced(thread, using, ~until, ~runs_until, until & since, runs_until & since)
    if start.supersede_from is None:
        return None
    current = ThreadMessage.objects.using(using).filter(thread=thread, superseded_by=None, piece=0)
    places = current.order_by("turn", "run", "place").values_list("turn", "run", "place")
    for turn, run, place in places[start.supersede_from : start.supersede_from + 1]:
        return _Replaced(
            thread,
            using,
            Q(turn__gt=turn) | Q(turn=turn, run__gt=run) | Q(turn=turn, run=run, place__gte=place),
            Q(turn__gt=turn) | Q(turn=turn, pk__gte=run),
        )
    return None


def _opened(start: TurnStart, scope: str, using: str) -> Thread:
    """Return the thread at the revision that was decided on, 0 where this transaction makes it."""
    threads = Thread.objects.using(using).for_owner(start.owner, scope, thread=start.thread_id)
    if start.revision is None:
        now = datetime.now(UTC)
        row = Thread(**owner_columns(start.owner, scope, start.thread_id), created_at=now, updated_at=now)
        # No error where another transaction makes it first: that would undo the whole of this one.
        Thread.objects.using(using).bulk_create([row], ignore_conflicts=True)
    thread = threads.only("revision", "next_turn", "turns", "preview").first()
    if thread is None or thread.revision != (start.revision or 0):
        raise ThreadChanged
    return thread


def _turn_of(thread: Thread, run: int, using: str) -> int:
    turn = Run.objects.using(using).filter(pk=run, in_thread=thread).values_list("turn", flat=True).first()
    if turn is None:
        raise ThreadChanged
    return turn


def _columns_of_run(connection: BaseDatabaseWrapper, **columns: str) -> dict[str, str]:
    """Return an expression for each column, the parameter of which is the key of the run that has it."""
    quote = connection.ops.quote_name
    table = quote(Run._meta.db_table)
    return {
        name: f"(SELECT {quote(column)} FROM {table} WHERE id = %s)"  # noqa: S608
        for name, column in columns.items()
    }


def _message_rows(
    key: tuple[int, int, int, int], message: JsonObject, *, through_seq: int, superseded_by: int | None = None
) -> Iterator[Row]:
    body = as_json(message).encode()
    parts = list(pieces(body))
    about = (len(parts), storable(message["id"]), message["role"], content_digest(message), through_seq)
    for piece, part in parts:
        yield (*key, piece, superseded_by, *about, part)
