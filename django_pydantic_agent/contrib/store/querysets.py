"""The reads of the store app, by name."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from django.db import models
from django.db.models.functions import Coalesce

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import CUT, ENDED, LIVE

if TYPE_CHECKING:
    from django_pydantic_agent.contrib.store.models import Run, Thread  # noqa: F401

_M = TypeVar("_M", bound=models.Model)


def digests(owner: Owner, scope: str, **texts: str | None) -> dict[str, str | None]:
    """Return a column `<name>_digest` for each text of an owner's row; None stays None."""
    return {f"{name}_digest": None if text is None else digest(owner.key, scope, text) for name, text in texts.items()}


def idempotency_digest(owner: Owner, scope: str, server: str, key: str) -> str:
    """Return what no two runs may share that were started under an idempotency key."""
    return digest(owner.key, scope, server, key)


class OwnedQuerySet(models.QuerySet[_M]):
    def for_owner(self, owner: Owner, scope: str, **texts: str) -> Self:
        """Keep the rows of one owner in one scope, and of those the ones with these ids.

        `texts` may name what the rows have a digest of: `thread`, and of a run `run`, `parent` and `conversation` too.
        Ids are compared exactly.
        """
        return self.filter(partition_digest=digest(owner.key, scope), **digests(owner, scope, **texts))

    def of_owner(self, owner: Owner) -> Self:
        """Keep the rows of one owner, whatever their scope."""
        return self.filter(owner_digest=digest(owner.key))


class ThreadQuerySet(OwnedQuerySet["Thread"]):
    def listed(self, *, archived: bool) -> Self:
        """Keep the threads that are archived, or those that are not, the one changed last first."""
        # `in`, because Django writes a comparison with False as NOT, which takes no index on SQLite and MariaDB.
        return self.filter(is_archived__in=[archived]).order_by("-updated_at", "-pk")

    def matching(self, text: str) -> Self:
        """Keep the threads whose title or preview holds `text`."""
        return self.filter(models.Q(title__icontains=text) | models.Q(preview__icontains=text))

    def with_runs(self) -> Self:
        """Add what a list shows of a thread's runs, each None where there is none.

        `active_run` is the id of the run that is going or first in the queue, `current_run` the key of that one or else
        of the newest, `branch_of` the key of the run that the first one has continued.
        """
        from django_pydantic_agent.contrib.store.models import Run

        runs = Run.objects.filter(in_thread=models.OuterRef("pk"))
        current = runs.filter(superseded_by=None)
        return self.annotate(
            active_run=models.Subquery(current.live().values("run_id")[:1]),
            current_run=Coalesce(
                models.Subquery(current.live().values("pk")[:1]),
                models.Subquery(current.order_by("-pk").values("pk")[:1]),
            ),
            branch_of=models.Subquery(runs.order_by("pk").values("parent")[:1]),
        )

    def at(self, status: str) -> Self:
        """Keep the threads whose `current_run` has this status."""
        from django_pydantic_agent.contrib.store.models import Run

        return self.filter(models.Exists(Run.objects.filter(pk=models.OuterRef("current_run"), status=status)))


class RunQuerySet(OwnedQuerySet["Run"]):
    def live(self) -> Self:
        """Keep the runs that are going or queued, in the order in which those of a thread are executed."""
        return self.filter(status__in=LIVE).order_by("turn", "pk")

    def listed(self) -> Self:
        """Keep the runs of the engine, newest first."""
        # `in`, because Django writes a comparison with False as NOT, which takes no index on SQLite and MariaDB.
        return self.filter(is_ledger_only__in=[False]).order_by("-pk")

    def matching(self, text: str) -> Self:
        """Keep the runs whose id or preview holds `text`."""
        return self.filter(models.Q(preview__icontains=text) | models.Q(run_id__icontains=text))

    def untidied(self) -> Self:
        """Keep the ended runs whose log was not brought into its resting form."""
        from django_pydantic_agent.contrib.store.models import RunFrames

        loose = RunFrames.objects.filter(run=models.OuterRef("pk"), is_compressed=False)
        return self.filter(models.Exists(loose), status__in=ENDED)

    def with_log_to_drop(self, *, ended_before: datetime) -> Self:
        """Keep the runs whose log nobody needs any more, and add `through`, the last seq of it to drop.

        A run that waits for an approval or has a tool effect without an outcome keeps its log. One that was cut in its
        thread keeps what it said behind its last boundary, because the model is told of it by the log.
        """
        from django_pydantic_agent.contrib.store.models import Interrupt

        undecided = Interrupt.objects.undecided().filter(run=models.OuterRef("pk"))
        through = models.Case(
            models.When(status__in=CUT, in_thread__isnull=False, then=models.F("boundary_seq")),
            default=models.F("last_seq"),
        )
        return (
            self.filter(~models.Exists(undecided), status__in=ENDED, finished_at__lt=ended_before)
            .with_unresolved_effects()
            .annotate(through=through)
            .filter(unresolved_effects=0, first_seq__lte=models.F("through"))
        )

    def keys_with_delegates(self) -> set[int]:
        """Return the keys of these runs and of the delegates that ran inside them, however deep."""
        from django_pydantic_agent.contrib.store.delegates import keys_inside

        return set().union(*keys_inside(self.order_by().values_list("pk", flat=True), using=self.db).values())

    def of_unknown_outcome(self) -> Self:
        """Keep the runs that made a call whose outcome nobody knows, or inside which a delegate did."""
        from django_pydantic_agent.contrib.store.models import ToolEffect

        unknown = ToolEffect.objects.using(self.db).of_unknown_outcome()
        return self.filter(models.Q(pk__in=unknown.values("run")) | models.Q(run_digest__in=unknown.digests_above()))

    def with_unresolved_effects(self) -> Self:
        """Add `unresolved_effects` and `parent_unresolved_effects`, the numbers of the run's and its parent's."""
        return self.annotate(
            unresolved_effects=_number_unresolved("pk"), parent_unresolved_effects=_number_unresolved("parent")
        )


class ToolEffectQuerySet(models.QuerySet[_M]):
    def unresolved(self) -> Self:
        """Keep the effects that have no outcome and no verdict."""
        from django_pydantic_agent.contrib.store.models.ledger import EffectStatus

        return self.filter(status=EffectStatus.STARTED, verdict="")

    def of_unknown_outcome(self) -> Self:
        """Keep the unresolved effects but for those of calls that a live run, or a delegate inside it, still makes."""
        from django_pydantic_agent.contrib.store.models import Run

        live: RunQuerySet = Run.objects.using(self.db).filter(status__in=LIVE)
        return self.unresolved().exclude(reason="", run__in=live.keys_with_delegates())

    def digests_above(self) -> set[str]:
        """Return the digests of the runs inside which a delegate made one of these calls, however deep."""
        from django_pydantic_agent.contrib.store.delegates import digests_above

        inside = self.filter(run__is_ledger_only=True, run__parent_digest__isnull=False).order_by()
        return digests_above(inside.values_list("run__parent_digest", flat=True).distinct(), using=self.db)


def _number_unresolved(run: str) -> Any:
    """Return the expression for how many effects of the run that a column names are unresolved."""
    from django_pydantic_agent.contrib.store.models import ToolEffect

    effects: Any = (
        ToolEffect.objects.unresolved()
        .filter(run=models.OuterRef(run))
        .order_by()
        .values("run")
        .annotate(number=models.Count("*"))
        .values("number")
    )
    return Coalesce(models.Subquery(effects), 0)
