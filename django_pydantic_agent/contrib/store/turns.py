"""What runs write into their threads, each time inside the transaction that also writes the run."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Q, QuerySet

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run, Thread, ThreadMessage
from django_pydantic_agent.contrib.store.rows import Row, as_json, insert, pieces
from django_pydantic_agent.exceptions import ThreadChanged, ThreadNotFound
from django_pydantic_agent.log.frames import JsonObject, storable, storable_value
from django_pydantic_agent.stores.base import Ending
from django_pydantic_agent.stores.conversations import TurnSave, TurnStart
from django_pydantic_agent.threads.branch import IMPORTED, content_digest, preview

MESSAGE_KEY = ("thread_id", "turn", "run", "place", "piece")
MESSAGE_CONTENT = ("pieces", "message_id", "role", "content_digest", "through_seq", "body")
MESSAGE_COLUMNS = (*MESSAGE_KEY, *MESSAGE_CONTENT, "superseded_by")


def accept(start: TurnStart, *, scope: str, run: int, using: str) -> int:
    """Write an accepted turn and return the thread's new revision.

    Raises `ThreadChanged` where the thread is not at `start.revision` any more.
    """
    thread = _open(start, scope, using)
    turn, is_new = thread.next_turn, True
    if start.continues is not None:
        turn = Run.objects.using(using).values_list("turn", flat=True).get(pk=start.continues, in_thread=thread)
        is_new = False
    replaced = _find_replaced(start, thread, using)
    if replaced is not None:
        _mark_runs(replaced, run)
    changes: dict[str, Any] = {
        "revision": thread.revision + 1,
        "updated_at": datetime.now(UTC),
        "waiting_run": None,
        "turns": thread.turns + is_new,
        "next_turn": thread.next_turn + is_new,
    }
    if replaced is not None:
        changes["turns"] = 1 + replaced.turns_left(turn)
    if thread.preview is None:
        changes["preview"] = preview([*start.imported, *start.messages])
    # From here on the thread is locked, as it was when it was decided on.
    if not Thread.objects.using(using).filter(pk=thread.pk, revision=thread.revision).update(**changes):
        raise ThreadChanged
    if replaced is not None:
        replaced.mark_messages(run)
    Run.objects.using(using).filter(pk=run).update(in_thread=thread, turn=turn)
    rows = [
        row
        for number, messages in ((IMPORTED, start.imported), (turn, start.messages))
        for place, message in enumerate(messages)
        for row in _message_rows((thread.pk, number, run, place), message, through_seq=1, superseded_by=None)
    ]
    insert(connections[using], ThreadMessage, MESSAGE_COLUMNS, rows)
    return thread.revision + 1


def save(saved: TurnSave, *, using: str) -> None:
    """Write the new and changed messages of a run, and the state: one statement for each of the two."""
    rows = [
        row
        for place, message in saved.messages
        for row in _message_rows((saved.run, saved.run, saved.run, place), message, saved.through_seq, saved.run)
    ]
    connection = connections[using]
    insert(
        connection,
        ThreadMessage,
        MESSAGE_COLUMNS,
        rows,
        update=MESSAGE_CONTENT,
        unique=MESSAGE_KEY,
        computed=_of_run(connection, thread_id="in_thread_id", turn="turn", superseded_by="superseded_by"),
    )
    if saved.has_state:
        threads = Thread.objects.using(using).filter(runs=saved.run)
        threads.update(**_state_columns(saved))


def end(saved: TurnSave, ending: Ending, *, using: str) -> int:
    """Write the last of a run and what it waits for, and return the thread's new revision."""
    save(saved, using=using)
    threads = Thread.objects.using(using)
    part = Run.objects.using(using).filter(pk=saved.run).values_list("in_thread", "superseded_by").first()
    if part is None or part[0] is None:
        raise ThreadNotFound
    thread, superseded_by = part
    changes: dict[str, Any] = {"revision": F("revision") + 1, "updated_at": datetime.now(UTC)}
    if superseded_by is None and (ending.interrupts or ending.pending_calls):
        changes |= {
            "waiting_run": saved.run,
            "open_calls": storable_value(list(ending.pending_calls)),
            "open_interrupts": storable_value(list(ending.interrupts)),
        }
    threads.filter(pk=thread).update(**changes)
    revision: int = threads.values_list("revision", flat=True).get(pk=thread)
    return revision


class Replaced:
    """What an accepted run replaces: what `is_behind` of the current branch; what `is_restored` becomes current."""

    def __init__(self, thread: Thread, using: str, *, behind: Q, runs_behind: Q, restored: Q | None = None) -> None:
        self._messages = ThreadMessage.objects.using(using).filter(thread=thread)
        self._runs = Run.objects.using(using).filter(in_thread=thread)
        self._behind = behind
        self._runs_behind = runs_behind
        self._restored = restored

    def turns_left(self, turn: int) -> int:
        """Return how many turns stay current besides `turn`."""
        stays = Q(superseded_by=None) & ~self._behind
        if self._restored is not None:
            stays |= self._restored
        left = self._messages.filter(stays, piece=0).exclude(turn__in=(IMPORTED, turn))
        return left.order_by().values("turn").distinct().count()

    def mark_runs(self, run: int) -> None:
        self._mark(self._runs, self._runs_behind, run)

    def mark_messages(self, run: int) -> None:
        self._mark(self._messages, self._behind, run)

    def _mark(self, rows: "QuerySet[Any]", behind: Q, run: int) -> None:
        rows.filter(behind, superseded_by=None).update(superseded_by=run)
        if self._restored is not None:
            rows.filter(self._restored).update(superseded_by=None)
