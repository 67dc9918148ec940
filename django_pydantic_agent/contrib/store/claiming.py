"""What happens at login: the runs of the visitor's bucket become the user's."""

import logging
from collections.abc import Iterable
from typing import Any

from django.db import DatabaseError, IntegrityError, router, transaction

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.querysets import digests
from django_pydantic_agent.ownership import BUCKET_SESSION_KEY, Owner

logger = logging.getLogger(__name__)

BATCH_SIZE = 500

_DIGESTS = ("owner_digest", "partition_digest", "run_digest", "thread_digest", "parent_digest", "conversation_digest")


def claim_at_login(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """Give the user what the session's bucket owns, then forget the bucket.

    Where the database fails, the login goes on and the bucket stays in the session, which no other user ever gets.
    """
    session: Any = getattr(request, "session", None)
    bucket = None if session is None else session.get(BUCKET_SESSION_KEY)
    if bucket is None or user.pk is None:
        return
    try:
        claim_runs(Owner.of_bucket(bucket), Owner.of_user(user))
    except DatabaseError:
        logger.exception("The runs of a visitor could not be given to the user who logged in.")
    else:
        del session[BUCKET_SESSION_KEY]


def claim_runs(source: Owner, target: Owner) -> int:
    """Make the runs of `source` those of `target` and return their number.

    Runs whose id `target` has already stay behind. Each batch is a transaction of its own.
    """
    alias = router.db_for_write(Run)
    runs = Run.objects.using(alias).of_owner(source).order_by("pk")
    columns = ("pk", "owner", "scope", "run_id", "thread_id", "parent_run_id", "conversation_id")
    claimed, last = 0, 0
    while batch := list(runs.filter(pk__gt=last).only(*columns)[:BATCH_SIZE]):
        last = batch[-1].pk
        for run in batch:
            _give(run, target)
        free = _without_clashes(batch, alias)
        try:
            claimed += _save(free, alias)
        except IntegrityError:
            # The user has started a run of one of these ids meanwhile.
            claimed += sum(_saved_alone(run, alias) for run in free)
    return claimed


def _give(run: Run, owner: Owner) -> None:
    run.owner = owner.key
    values = {
        "owner_digest": digest(owner.key),
        "partition_digest": digest(owner.key, run.scope),
        **digests(
            owner,
            run.scope,
            run=run.run_id,
            thread=run.thread_id,
            parent=run.parent_run_id,
            conversation=run.conversation_id,
        ),
    }
    for name, value in values.items():
        setattr(run, name, value)


def _without_clashes(runs: Iterable[Run], alias: str) -> list[Run]:
    digest_of = {run.run_digest: run for run in runs}
    taken = Run.objects.using(alias).filter(run_digest__in=digest_of).values_list("run_digest", flat=True)
    for run_digest in taken:
        del digest_of[run_digest]
    return list(digest_of.values())


def _save(runs: list[Run], alias: str) -> int:
    if not runs:
        return 0
    with transaction.atomic(using=alias):
        return Run.objects.using(alias).bulk_update(runs, ["owner", *_DIGESTS])


def _saved_alone(run: Run, alias: str) -> int:
    try:
        return _save([run], alias)
    except IntegrityError:
        return 0
