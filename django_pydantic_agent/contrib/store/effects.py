"""Tool effects that have no outcome, of a run and of the delegates that ran inside it."""

from django.db.models import QuerySet

from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus


def unresolved_effects(run: int, *, using: str) -> "QuerySet[ToolEffect]":
    """Return the effects without an outcome, in the order in which the calls began."""
    runs = Run.objects.using(using)
    keys, parents = {run}, set(runs.filter(pk=run).values_list("run_digest", flat=True))
    while parents:
        delegates = runs.filter(is_ledger_only=True, parent_digest__in=parents).exclude(pk__in=keys)
        found = dict(delegates.values_list("pk", "run_digest"))
        keys.update(found)
        parents = set(found.values())
    effects: QuerySet[ToolEffect] = ToolEffect.objects.using(using).filter(run__in=keys, status=EffectStatus.STARTED)
    return effects.order_by("pk")


def note_reason(run: int, reason: str, *, using: str) -> None:
    """Note why the effects of a run stay without an outcome."""
    unresolved_effects(run, using=using).filter(reason="").update(reason=reason)
