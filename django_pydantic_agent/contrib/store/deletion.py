"""Deleting threads and runs with all that their runs have written, but for what other runs go on from."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store.models import HistoryMessage, Run, Snapshot, Thread
from django_pydantic_agent.contrib.store.querysets import RunQuerySet, ThreadQuerySet
from django_pydantic_agent.exceptions import ThreadChanged, ThreadNotFound
from django_pydantic_agent.runs.states import LIVE

# SQLite takes only so many parameters.
KEYS_PER_STATEMENT = 500

NOBODY = 0
"""The writer that a run names which goes on from nothing."""

Stretch = tuple[int, int]


def delete_thread(threads: ThreadQuerySet, *, revision: int | None, using: str) -> list[int]:
    """Delete the one thread in `threads` and its runs; return the keys of those that were live.

    A live run can write nothing any more, because its row is gone. Raises `ThreadNotFound` where there is no thread,
    `ThreadChanged` where it is not at `revision`, unless that is None.
    """

    def attempt() -> list[int] | None:
        with transaction.atomic(using=using):
            return _delete(threads, revision, using)

    while (live := patiently(attempt)) is None:
        pass
    return live


def delete_runs(runs: Mapping[int, str], *, using: str) -> None:
    """Delete runs, given as keys with their digests, the delegates inside them, and histories that nobody needs then.

    The caller has locked the runs.
    """
    all_runs: RunQuerySet = Run.objects.using(using)
    doomed = runs.keys() | dict(_delegates(set(runs.values()), all_runs)).keys()
    writers = doomed | _history_writers(doomed, using)
    # A fork that has read what it goes on from may not have written that down yet.
    live = all_runs.filter(status__in=LIVE)
    forks = (live.filter(parent__in=some).values_list("pk", flat=True) for some in batches(doomed))
    are_read = any(not doomed.issuperset(some) for some in forks)
    for some in batches(sorted(doomed)):
        all_runs.filter(pk__in=some).only("pk").delete()
    if not are_read:
        forget_histories(writers, using=using)


def forget_histories(writers: Iterable[int], *, using: str) -> None:
    """Delete what these runs have added to histories, where they are gone and no other run goes on from it.

    What they went on from themselves is looked at too.
    """
    gone, bases = _gone_writers(writers, using)
    needed = _needed_from_outside(gone, using)
    waiting = list(needed)
    while waiting:
        base = bases.get(waiting.pop())
        if base is not None and base not in needed:
            needed.add(base)
            waiting.append(base)
    keeping = {writer for writer, _ in needed}
    history = HistoryMessage.objects.using(using)
    for some in batches(gone - keeping):
        history.filter(writer__in=some).delete()
    for writer in gone & keeping:
        numbers = (number for other, number in bases if other == writer and (other, number) not in needed)
        for some in batches(numbers):
            history.filter(writer=writer, number__in=some).delete()


def _delete(threads: ThreadQuerySet, revision: int | None, using: str) -> list[int] | None:
    """Delete a thread; None where a run has joined it before it was locked."""
    thread = threads.values_list("pk", flat=True).first()
    if thread is None:
        raise ThreadNotFound
    all_runs: RunQuerySet = Run.objects.using(using)
    own = all_runs.filter(in_thread=thread).order_by("pk")
    # Runs first, then the thread: the order in which every transaction locks them.
    rows = list(own.select_for_update().values_list("pk", "status", "run_digest"))
    current = threads.select_for_update().values_list("revision", flat=True).first()
    if current is None:
        raise ThreadNotFound
    if revision not in (None, current):
        raise ThreadChanged
    if list(own.values_list("pk", flat=True)) != [key for key, _, _ in rows]:
        return None
    delete_runs({key: run_digest for key, _, run_digest in rows}, using=using)
    Thread.objects.using(using).filter(pk=thread).delete()
    return [key for key, status, _ in rows if status in LIVE]


def _delegates(run_digests: set[str], runs: RunQuerySet) -> Iterator[tuple[int, str]]:
    """Yield the keys and digests of the runs that only the ledger has and that were made inside the given ones.

    Those that go on from the history of another run were not: somebody has continued it without the engine.
    """
    key = OuterRef("pk")
    forked = Exists(HistoryMessage.objects.filter(writer=key, base_writer__isnull=False).exclude(base_writer=key))
    unchanged = Exists(Snapshot.objects.filter(run=key).exclude(history_writer=key).exclude(history_writer=NOBODY))
    while run_digests:
        found: dict[int, str] = {}
        for some in batches(run_digests):
            inside = runs.filter(~forked, ~unchanged, is_ledger_only=True, parent_digest__in=some)
            found.update(inside.values_list("pk", "run_digest"))
        yield from found.items()
        run_digests = set(found.values())


def _history_writers(runs: set[int], using: str) -> set[int]:
    """Return the writers of the histories that these runs refer to."""
    writers: set[int] = set()
    for some in batches(runs):
        own = Run.objects.using(using).filter(pk__in=some)
        snapshots = Snapshot.objects.using(using).filter(run__in=some).order_by()
        writers.update(own.values_list("seed_writer", flat=True))
        writers.update(own.values_list("history_writer", flat=True))
        writers.update(snapshots.values_list("history_writer", flat=True).distinct())
    return writers - {NOBODY}


def _gone_writers(writers: Iterable[int], using: str) -> tuple[set[int], dict[Stretch, Stretch | None]]:
    """Return those of the writers that are gone, with those that they went on from, and their rows' bases."""
    gone: set[int] = set()
    bases: dict[Stretch, Stretch | None] = {}
    looked_at = set(writers)
    waiting = set(looked_at)
    while waiting:
        found: set[int] = set()
        for some in batches(waiting):
            there = set(Run.objects.using(using).filter(pk__in=some).values_list("pk", flat=True))
            gone.update(set(some) - there)
            rows = HistoryMessage.objects.using(using).filter(writer__in=set(some) - there, piece=0)
            for writer, number, *base in rows.values_list("writer", "number", "base_writer", "base_number"):
                match base:
                    case [int(base_writer), int(base_number)]:
                        bases[writer, number] = (base_writer, base_number)
                        found.add(base_writer)
                    case _:
                        bases[writer, number] = None
        waiting = found - looked_at
        looked_at |= found
    return gone, bases


def _needed_from_outside(gone: set[int], using: str) -> set[Stretch]:
    """Return the rows of these writers by which others name their histories."""
    needed: set[Stretch] = set()
    for some in batches(gone):
        references: list[QuerySet[Any]] = [
            HistoryMessage.objects.using(using)
            .filter(base_writer__in=some, piece=0)
            .values_list("writer", "base_writer", "base_number"),
            Snapshot.objects.using(using)
            .filter(history_writer__in=some)
            .order_by()
            .values_list("run", "history_writer", "history_number"),
            Run.objects.using(using).filter(seed_writer__in=some).values_list("pk", "seed_writer", "seed_number"),
            Run.objects.using(using)
            .filter(history_writer__in=some)
            .values_list("pk", "history_writer", "history_number"),
        ]
        needed.update((writer, number) for rows in references for other, writer, number in rows if other not in gone)
    return needed


def batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield as many of the values as a statement may have parameters, and then the next ones."""
    rest = iter(values)
    while batch := list(islice(rest, KEYS_PER_STATEMENT)):
        yield batch
