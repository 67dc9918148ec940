"""The reads of the store app, by name."""

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models.functions import Coalesce

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.ownership import Owner

if TYPE_CHECKING:
    from django_pydantic_agent.contrib.store.models import Run  # noqa: F401


def digests(owner: Owner, scope: str, **texts: str | None) -> dict[str, str | None]:
    """Return a column `<name>_digest` for each text of an owner's run; None stays None."""
    return {f"{name}_digest": None if text is None else digest(owner.key, scope, text) for name, text in texts.items()}


class RunQuerySet(models.QuerySet["Run"]):
    def for_owner(self, owner: Owner, scope: str, **texts: str) -> Self:
        """Keep the runs of one owner in one scope, and of those the ones with these ids.

        `texts` may name `run`, `thread`, `parent` or `conversation`. Ids are compared exactly.
        """
        return self.filter(partition_digest=digest(owner.key, scope), **digests(owner, scope, **texts))

    def of_owner(self, owner: Owner) -> Self:
        """Keep the runs of one owner, whatever their scope."""
        return self.filter(owner_digest=digest(owner.key))

    def listed(self) -> Self:
        """Keep the runs of the engine, newest first."""
        return self.filter(is_ledger_only=False).order_by("-pk")

    def matching(self, text: str) -> Self:
        """Keep the runs whose id or preview holds `text`."""
        return self.filter(models.Q(preview__icontains=text) | models.Q(run_id__icontains=text))

    def with_unresolved_effects(self) -> Self:
        """Add `unresolved_effects`, the number of tool effects without an outcome."""
        from django_pydantic_agent.contrib.store.models import ToolEffect
        from django_pydantic_agent.contrib.store.models.ledger import EffectStatus

        effects: Any = (
            ToolEffect.objects.filter(run=models.OuterRef("pk"), status=EffectStatus.STARTED)
            .order_by()
            .values("run")
            .annotate(number=models.Count("*"))
            .values("number")
        )
        return self.annotate(unresolved_effects=Coalesce(models.Subquery(effects), 0))
