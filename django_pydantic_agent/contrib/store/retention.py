"""Keeping logs small: merging what a process that died has left loose, dropping what is older than a project keeps."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import router
from django.db.models import F

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.exceptions import RunNotFound
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.attach import keep_fold
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore

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
    return _for_each(runs, lambda log, through: patiently(log.merge))


def logs_to_prune(*, ended_before: datetime) -> Tally:
    """Return how much `prune_logs` would drop."""
    return _for_each(_runs().with_log_to_drop(ended_before=ended_before), lambda log, through: None)


def prune_logs(*, ended_before: datetime, stretches: int) -> Tally:
    """Drop the logs of the runs that ended before then and that nobody needs, in transactions of so many stretches.

    What a log adds up to is kept beside it before the first of it goes.
    """

    def drop(log: RunLog, through: int) -> None:
        if log.first_seq == 1:
            patiently(lambda: _keep_fold(log.run))
        while patiently(lambda: log.drop(through=through, stretches=stretches)):
            pass

    return _for_each(_runs().with_log_to_drop(ended_before=ended_before), drop)


def _keep_fold(key: int) -> None:
    store = DatabaseRunStore()
    owner, thread = _runs().values_list("owner", "in_thread").get(pk=key)
    run = store.by_key(key, owner=Owner(owner))
    if run is None:
        raise RunNotFound
    keep_fold(run, store=store, conversation=_conversation(run, thread))


def _conversation(run: StoredRun, thread: int | None) -> ConversationStore | None:
    """Return where the run's thread is, if it has one: what its mount says, else where the run's row says it is."""
    try:
        if (conversation := find_mount(run.server).conversation) is not None:
            return conversation
    except LookupError:
        logger.info("There is no mount %r any more, whose run %r is pruned.", run.server, run.run_id)
    if thread is None:
        return None
    own = DefaultConversationStore(allow_anonymous=True)
    own.scope = run.scope
    return own


def _for_each(runs: RunQuerySet, deal_with: Callable[[RunLog, int], None]) -> Tally:
    """Deal with the log of each run up to its `through`; one that cannot be dealt with holds up no other."""
    tally = Tally()
    for run, first_seq, through in _rows(runs):
        try:
            deal_with(RunLog(run=run, using=_alias()), through)
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
