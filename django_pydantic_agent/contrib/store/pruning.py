"""Pruning what is too old: threads as a whole, and runs outside of threads together with those that go on from them."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db import router, transaction
from django.db.models import Exists, OuterRef, Q

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store.deletion import delete_runs, delete_thread
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Thread, ToolEffect
from django_pydantic_agent.contrib.store.querysets import OwnedQuerySet, RunQuerySet, ThreadQuerySet
from django_pydantic_agent.exceptions import ThreadNotFound
from django_pydantic_agent.ownership import ANONYMOUS
from django_pydantic_agent.runs.states import LIVE

logger = logging.getLogger(__name__)

ROWS_PER_READ = 500

_T = TypeVar("_T")
_Q = TypeVar("_Q", bound=OwnedQuerySet[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRule:
    """What is too old: what ended before then, of every owner or of anonymous ones only.

    What waits for an answer, and what has a tool effect whose outcome nobody knows, is too old only where the rule says
    so. Live runs never are, nor is what they go on from.
    """

    ended_before: datetime
    anonymous_only: bool = False
    waiting: bool = False
    unresolved: bool = False

    def of_owners(self, rows: _Q) -> _Q:
        return rows.filter(owner__startswith=ANONYMOUS) if self.anonymous_only else rows


@dataclass(slots=True)
class PruneTally:
    """How many threads and how many runs outside of threads were pruned, and with how many rows it failed."""

    threads: int = 0
    runs: int = 0
    failed: int = 0


@dataclass(slots=True, kw_only=True)
class Pruner:
    """Prunes by one rule; with `dry_run`, says only how much that would be."""

    rule: PruneRule
    batch_size: int
    dry_run: bool = False
    tally: PruneTally = field(default_factory=PruneTally)
    _gone: set[int] = field(default_factory=set)
    _using: str = field(default_factory=lambda: router.db_for_write(Run))
    _unsettled: set[str] = field(default_factory=set)

    def prune(self) -> PruneTally:
        if not self.rule.unresolved:
            self._unsettled = ToolEffect.objects.using(self._using).unresolved().digests_above()
        for threads in self._pages(self._old_threads(), ROWS_PER_READ, order="pk"):
            for thread in threads:
                self._carefully(self._prune_thread, thread)
        # The newest first: what a run goes on from is looked at after it.
        for runs in self._pages(self._old_runs(), self.batch_size, order="-pk"):
            self._carefully(self._prune_runs, runs)
        return self.tally

    def _prune_thread(self, key: int) -> None:
        thread = self._old_threads().filter(pk=key)
        if not self.dry_run:
            try:
                delete_thread(thread, revision=None, using=self._using)
            except ThreadNotFound:
                # Somebody has gone on with it or deleted it meanwhile.
                return
        self.tally.threads += 1

    def _prune_runs(self, keys: list[int]) -> None:
        with transaction.atomic(using=self._using):
            if not self.dry_run:
                list(self._runs.filter(pk__in=keys).select_for_update().order_by("pk").values_list("pk"))
            old = self._old_runs().filter(pk__in=keys).order_by("-pk")
            children = defaultdict(set)
            below = self._runs.filter(parent__in=keys, is_ledger_only=False).exclude(parent=None)
            for child, parent in below.values_list("pk", "parent"):
                children[parent].add(child)
            doomed: dict[int, str] = {}
            for key, run_digest in old.values_list("pk", "run_digest"):
                if children[key] <= self._gone | doomed.keys():
                    doomed[key] = run_digest
            if not self.dry_run:
                delete_runs(doomed, using=self._using)
        self._gone |= doomed.keys()
        self.tally.runs += len(doomed)

    def _old_threads(self) -> ThreadQuerySet:
        """Return the threads in which no run stays; one without runs is as old as its last change."""
        own = Run.objects.filter(in_thread=OuterRef("pk"))
        threads: ThreadQuerySet = Thread.objects.using(self._using)
        if not self.rule.waiting:
            threads = threads.filter(waiting_run=None)
        staying = own.with_unresolved_effects().filter(self._stays)
        return self.rule.of_owners(threads).filter(
            Exists(own) | Q(updated_at__lt=self.rule.ended_before), ~Exists(staying)
        )

    def _old_runs(self) -> RunQuerySet:
        """Return the runs outside of threads that do not stay, whoever goes on from them."""
        runs = self._runs.filter(in_thread=None, is_ledger_only=False).with_unresolved_effects()
        return self.rule.of_owners(runs).filter(~self._stays)

    @property
    def _stays(self) -> Q:
        live_children = Run.objects.filter(parent=OuterRef("pk"), status__in=LIVE)
        stays = Q(status__in=LIVE) | Q(finished_at=None) | Q(finished_at__gte=self.rule.ended_before)
        stays |= Q(Exists(live_children))
        if not self.rule.waiting:
            stays |= Q(Exists(Interrupt.objects.undecided().filter(run=OuterRef("pk"))))
        if not self.rule.unresolved:
            stays |= Q(unresolved_effects__gt=0) | Q(run_digest__in=self._unsettled)
        return stays

    @property
    def _runs(self) -> RunQuerySet:
        runs: RunQuerySet = Run.objects.using(self._using)
        return runs

    def _carefully(self, prune: Callable[[_T], None], keys: _T) -> None:
        """Have one failure hold up nothing else."""
        try:
            patiently(lambda: prune(keys))
        except Exception:
            logger.exception("What has the key %s could not be pruned.", keys)
            self.tally.failed += 1

    @staticmethod
    def _pages(rows: OwnedQuerySet[Any], size: int, *, order: str) -> Iterator[list[int]]:
        """Yield the rows' keys without one long query."""
        keys = rows.order_by(order).values_list("pk", flat=True)
        page = list(keys[:size])
        while page:
            yield page
            page = list(keys.filter(**{"pk__lt" if order == "-pk" else "pk__gt": page[-1]})[:size])
