"""Erasing what an owner has: taken away from it first, which nobody can see any more, then deleted in batches.

No mark is kept of whom to erase, for what was taken away says so itself: its owner is one that no request acts for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import router, transaction
from django.db.models import Case, Model, Value, When
from django.db.models.functions import Concat, Substr

from django_pydantic_agent.connections import patiently
from django_pydantic_agent.contrib.store.deletion import batches, delete_runs
from django_pydantic_agent.contrib.store.fields import DigestField
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run, Thread
from django_pydantic_agent.contrib.store.querysets import RunQuerySet, ThreadQuerySet
from django_pydantic_agent.ownership import ERASED, USER, Owner, key_field

BATCH_SIZE = 100


@dataclass(slots=True)
class ErasedTally:
    """How many threads and runs were deleted, those of delegates not counted."""

    threads: int = 0
    runs: int = 0

    def __add__(self, other: "ErasedTally") -> "ErasedTally":
        return ErasedTally(self.threads + other.threads, self.runs + other.runs)


def erase_at_deletion(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """Erase what a user has, once the user's deletion is committed."""
    owner, pk = Owner.of_user(instance), instance.pk

    def erase_deleted() -> None:
        if not sender._base_manager.using(using).filter(pk=pk).exists():
            erase(owner)

    transaction.on_commit(erase_deleted, using=using, robust=True)


def erase_if_deleted(user: Any, owner: Owner) -> None:
    """Erase what was written for a user who has been deleted meanwhile; call it once that is committed.

    Who is deleted later is erased with it. Identities that are no row of the table of users are never deleted.
    """
    model = get_user_model()
    if not isinstance(user, model) or user._state.adding or Owner.of_user(user) != owner:
        return
    # A replica that lags, and a manager that hides users, would still show who is gone, or hide who is not.
    if not model._base_manager.using(router.db_for_write(model)).filter(pk=user.pk).exists():
        erase(owner)


def set_aside_at_creation(sender: Any, instance: Any, created: bool, raw: bool, using: str, **_: Any) -> None:
    """Take away what is left under the key of a new account: it is that of an earlier one with the same key."""
    if created and not raw and using == router.db_for_write(sender):
        set_aside(Owner.of_user(instance))


def erase(owner: Owner, *, batch_size: int = BATCH_SIZE) -> ErasedTally:
    """Delete all that an owner has. Live runs are stopped, and can write nothing any more once their rows are gone."""
    aside = set_aside(owner)
    _runs().of_owner(aside).live().update(cancel_requested=True)
    return delete_all(aside, batch_size=batch_size)


def set_aside(owner: Owner) -> Owner:
    """Take from an owner all that it has, in one transaction; return who has it then. The ids are free again."""
    if owner.key.startswith(ERASED):
        return owner
    aside = Owner.of_nobody()
    whose = {"owner": aside.key, "owner_digest": digest(aside.key)}
    # No digest begins so, and which of these digests equal each other stays as it was.
    mark = f"x{digest(aside.key)[:15]}"

    def take() -> None:
        with transaction.atomic(using=_alias()):
            _runs().of_owner(owner).update(**whose, **_marked(mark, Run))
            _threads().of_owner(owner).update(**whose, **_marked(mark, Thread))

    patiently(take)
    return aside


def delete_all(owner: Owner, *, batch_size: int) -> ErasedTally:
    """Delete what an owner has, so many runs or threads in one transaction.

    The newest runs go first, so that nothing is left that has read what an older one wrote.
    """
    return ErasedTally(
        runs=sum(sum(batch) for batch in iter(lambda: patiently(lambda: _delete_runs(owner, batch_size)), [])),
        threads=sum(iter(lambda: patiently(lambda: _delete_threads(owner, batch_size)), 0)),
    )


def owned(owner: Owner) -> ErasedTally:
    """Return how much `erase` would delete."""
    return ErasedTally(
        threads=_threads().of_owner(owner).count(),
        runs=_runs().of_owner(owner).filter(is_ledger_only=False).count(),
    )


def left_over() -> Iterator[Owner]:
    """Yield the owners of what was set aside and is not deleted yet."""
    return (Owner(key) for key in _keys(ERASED))


def deleted_users() -> Iterator[Owner]:
    """Yield the owners whose user is not in the project's table of users any more."""
    model = get_user_model()
    users = model._base_manager.using(router.db_for_write(model))
    for keys in batches(_keys(USER)):
        by_pk = {pk: key for key in keys if (pk := _pk(model, key)) is not None}
        there = {Owner.of_user(user).key for user in users.filter(pk__in=by_pk).only("pk")}
        yield from (Owner(key) for key in by_pk.values() if key not in there)


def _delete_runs(owner: Owner, batch_size: int) -> list[bool]:
    """Delete the newest runs of an owner; return of each whether it was no delegate."""
    using = _alias()
    with transaction.atomic(using=using):
        runs = _runs().of_owner(owner)
        newest = list(runs.order_by("-pk").values_list("pk", flat=True)[:batch_size])
        locked = runs.filter(pk__in=newest).select_for_update().order_by("pk")
        doomed = list(locked.values_list("pk", "run_digest", "is_ledger_only"))
        delete_runs({key: run_digest for key, run_digest, _ in doomed}, using=using)
        return [not is_ledger_only for _, _, is_ledger_only in doomed]


def _delete_threads(owner: Owner, batch_size: int) -> int:
    threads = _threads().of_owner(owner)
    with transaction.atomic(using=_alias()):
        keys = list(threads.order_by("pk").values_list("pk", flat=True)[:batch_size])
        threads.filter(pk__in=keys).delete()
    return len(keys)


def _marked(mark: str, model: type[Model]) -> dict[str, Case]:
    """Return the columns of digests with a mark in place of their first characters; None stays None."""
    columns = [field.name for field in model._meta.concrete_fields if isinstance(field, DigestField)]
    return {
        name: Case(When(**{f"{name}__isnull": False}, then=Concat(Value(mark), Substr(name, len(mark) + 1))))
        for name in columns
        if name != "owner_digest"
    }


def _keys(prefix: str) -> list[str]:
    keys = {
        key
        for rows in (_runs(), _threads())
        for key in rows.filter(owner__startswith=prefix).order_by().values_list("owner", flat=True).distinct()
    }
    return sorted(keys)


def _pk(model: Any, key: str) -> Any:
    """Return the primary key that an owner's key names, None where the table of users can have no such one."""
    field = key_field(model)
    try:
        pk = field.to_python(key.removeprefix(USER))
        field.run_validators(pk)
    except ValidationError:
        return None
    return pk


def _alias() -> str:
    return router.db_for_write(Run)


def _runs() -> RunQuerySet:
    runs: RunQuerySet = Run.objects.using(_alias())
    return runs


def _threads() -> ThreadQuerySet:
    threads: ThreadQuerySet = Thread.objects.using(_alias())
    return threads
