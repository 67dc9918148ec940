"""What happens at login: the threads and runs of the visitor's bucket become the user's."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import DatabaseError, IntegrityError, router, transaction
from django.db.models import QuerySet

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store.erasure import erase_if_deleted
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run, Thread
from django_pydantic_agent.contrib.store.querysets import ThreadQuerySet, digests, idempotency_digest
from django_pydantic_agent.exceptions import StoreUnavailable
from django_pydantic_agent.ownership import BUCKET_SESSION_KEY, Owner

logger = logging.getLogger(__name__)

BATCH_SIZE = 500

_IDS_OF_RUN = {
    "run": "run_id",
    "thread": "thread_id",
    "parent": "parent_run_id",
    "conversation": "conversation_id",
}


def claim_at_login(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """Give the user what the session's bucket owns, then forget the bucket.

    Where the database fails, the login goes on and the bucket stays in the session, which no other user ever gets.
    """
    session: Any = getattr(request, "session", None)
    bucket = None if session is None else session.get(BUCKET_SESSION_KEY)
    if bucket is None or user.pk is None:
        return
    try:
        claim(Owner.of_bucket(bucket), Owner.of_user(user))
    except (DatabaseError, StoreUnavailable):
        logger.exception("What a visitor had could not be given to the user who logged in.")
    else:
        del session[BUCKET_SESSION_KEY]
        check = partial(erase_if_deleted, user, Owner.of_user(user))
        transaction.on_commit(check, using=router.db_for_write(Run), robust=True)


def claim(source: Owner, target: Owner) -> None:
    """Make what `source` owns that of `target`: threads first, because a thread that stays behind keeps its runs."""
    claim_threads(source, target)
    claim_runs(source, target)


def claim_threads(source: Owner, target: Owner) -> int:
    """Make the threads of `source` those of `target` and return their number; those of a taken id stay behind."""
    threads = _threads(source)
    return _claim(threads.only("owner", "scope", "thread_id"), target, {"thread": "thread_id"}, unique="thread_digest")


def claim_runs(source: Owner, target: Owner) -> int:
    """Make the runs of `source` those of `target` and return their number.

    Runs whose id or idempotency key `target` has already stay behind, and so do those whose thread has stayed behind.
    """
    runs = Run.objects.using(router.db_for_write(Run)).of_owner(source)
    runs = runs.exclude(in_thread__in=_threads(source)).only(
        "owner", "scope", "server", "idempotency_key", "idempotency_digest", *_IDS_OF_RUN.values()
    )
    return _claim(runs, target, _IDS_OF_RUN, unique="run_digest", columns=["idempotency_digest"])


def _threads(owner: Owner) -> ThreadQuerySet:
    return Thread.objects.using(router.db_for_write(Thread)).of_owner(owner)


def _claim(
    rows: "QuerySet[Any]", owner: Owner, ids: dict[str, str], *, unique: str, columns: Sequence[str] = ()
) -> int:
    """Give the rows to `owner` in batches, each a transaction of its own; `ids` are what they have digests of."""
    columns = ["owner", "owner_digest", "partition_digest", *(f"{name}_digest" for name in ids), *columns]
    alias = rows.db
    rows = rows.select_for_update().order_by("pk")

    def claim_behind(pk: int) -> tuple[int | None, int]:
        """Return the last of the next rows, None where there are none, and how many of them are claimed."""
        with transaction.atomic(using=alias):
            batch = list(rows.filter(pk__gt=pk)[:BATCH_SIZE])
            if not batch:
                return None, 0
            for row in batch:
                _give(row, owner, ids)
            free = _without_clashes(batch, unique)
            try:
                saved = _save(free, columns)
            except IntegrityError:
                # The user has started one of these ids meanwhile.
                saved = sum(_saved_alone(row, columns) for row in free)
            return batch[-1].pk, saved

    claimed = 0
    last: int | None = 0
    while last is not None:
        last, saved = patiently(partial(claim_behind, last))
        claimed += saved
    return claimed


def _give(row: Any, owner: Owner, ids: dict[str, str]) -> None:
    row.owner = owner.key
    values = {
        "owner_digest": digest(owner.key),
        "partition_digest": digest(owner.key, row.scope),
        **digests(owner, row.scope, **{name: getattr(row, column) for name, column in ids.items()}),
    }
    for name, value in values.items():
        setattr(row, name, value)
    if getattr(row, "idempotency_key", None) is not None:
        row.idempotency_digest = idempotency_digest(owner, row.scope, row.server, row.idempotency_key)


def _without_clashes(rows: list[Any], unique: str) -> list[Any]:
    by_digest = {getattr(row, unique): row for row in rows}
    others = type(rows[0])._default_manager.using(rows[0]._state.db)
    for taken in others.filter(**{f"{unique}__in": by_digest}).values_list(unique, flat=True):
        del by_digest[taken]
    return list(by_digest.values())


def _save(rows: list[Any], columns: list[str]) -> int:
    if not rows:
        return 0
    alias = rows[0]._state.db
    with transaction.atomic(using=alias):
        saved: int = type(rows[0])._default_manager.using(alias).bulk_update(rows, columns)
    return saved


def _saved_alone(row: Any, columns: list[str]) -> int:
    try:
        return _save([row], columns)
    except IntegrityError:
        return 0
