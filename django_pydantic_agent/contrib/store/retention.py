"""Keeping logs small: merging what a process that died has left loose, dropping what is older than a project keeps."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import router
from django.db.models import F

from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.outages import patiently
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore

logger = logging.getLogger(__name__)

RUNS_PER_READ = 500


@dataclass(slots=True)
class Tally:
    """How many logs were dealt with, how many events they had, and with how many it failed."""

    logs: int = 0
    events: int = 0
    failed: int = 0


def tidy_logs() -> Tally:
    """Bring the logs of ended runs into their resting form, where their processes died before they did so."""
    runs = _runs().untidied().annotate(through=F("last_seq"))
    return _for_each(runs, lambda run, through: DatabaseRunStore().tidy(run))


def logs_to_prune(*, ended_before: datetime) -> Tally:
    """Return how much `prune_logs` would drop."""
    return _for_each(_runs().with_log_to_drop(ended_before=ended_before), lambda run, through: None)


def prune_logs(*, ended_before: datetime, stretches: int) -> Tally:
    """Drop the logs of the runs that ended before then and that nobody needs, in transactions of so many stretches."""

    def drop(run: int, through: int) -> None:
        log = RunLog(run=run, using=_alias())
        while patiently(lambda: log.drop(through=through, stretches=stretches), using=log.using):
            pass

    return _for_each(_runs().with_log_to_drop(ended_before=ended_before), drop)


def _for_each(runs: RunQuerySet, deal_with: Callable[[int, int], None]) -> Tally:
    """Deal with the log of each run up to its `through`; one that cannot be dealt with holds up no other."""
    tally = Tally()
    for run, first_seq, through in _rows(runs):
        try:
            deal_with(run, through)
        except Exception:
            logger.exception("The log of run %d could not be dealt with.", run)
            tally.failed += 1
        else:
            tally.logs += 1
            tally.events += through - first_seq + 1
    return tally


def _rows(runs: RunQuerySet) -> Iterator[tuple[int, int, int]]:
    """Yield the key, the first and the last seq of what is to be dealt with, without one long query."""
    after = 0
    # `through` is an annotation.
    ordered: Any = runs.order_by("pk")
    columns = ordered.values_list("pk", "first_seq", "through")
    while rows := list(columns.filter(pk__gt=after)[:RUNS_PER_READ]):
        yield from rows
        after = rows[-1][0]


def _runs() -> RunQuerySet:
    runs: RunQuerySet = Run.objects.using(_alias())
    return runs


def _alias() -> str:
    return router.db_for_write(Run)
