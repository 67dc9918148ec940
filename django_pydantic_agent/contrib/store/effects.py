"""Tool effects of a run and of the delegates that ran inside it, and the settling of those without an outcome."""

from collections.abc import Collection
from datetime import UTC, datetime

from django.db import router
from django.db.models import Count
from django.utils.translation import gettext

from django_pydantic_agent.contrib.store.delegates import keys_inside
from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus
from django_pydantic_agent.contrib.store.querysets import ToolEffectQuerySet
from django_pydantic_agent.log.frames import storable
from django_pydantic_agent.stores.effects import Verdict


def effects_of(run: int, *, using: str) -> "ToolEffectQuerySet[ToolEffect]":
    """Return the effects of a run and of its delegates, in the order in which the calls began."""
    return ToolEffect.objects.using(using).filter(run__in=keys_inside([run], using=using)[run]).order_by("pk")


def number_unknown(runs: Collection[int], *, using: str) -> dict[int, int]:
    """Return how many calls of each run, by its key, have an outcome that nobody knows, with those of its delegates."""
    keys = keys_inside(runs, using=using)
    effects = ToolEffect.objects.using(using).filter(run__in=set().union(*keys.values())).of_unknown_outcome()
    numbers = dict(effects.order_by().values_list("run").annotate(Count("pk")))
    return {run: sum(numbers.get(key, 0) for key in inside) for run, inside in keys.items()}


def note_reason(run: int, reason: str, *, using: str) -> None:
    """Note why the effects of a run stay without an outcome."""
    effects_of(run, using=using).unresolved().filter(reason="").update(reason=reason)


def settle(effect: int, verdict: Verdict, *, by: str, note: str = "") -> bool:
    """Give a verdict on an effect whose outcome nobody knows; `by` says who gives it.

    Returns False, and changes nothing, where the effect has an outcome or a verdict, or where its call may still be
    going on in a live run.
    """
    effects = ToolEffect.objects.using(router.db_for_write(ToolEffect))
    return bool(settle_all(effects.filter(pk=effect), verdict, by=by, note=note))


def settle_all(effects: "ToolEffectQuerySet[ToolEffect]", verdict: Verdict, *, by: str, note: str) -> int:
    """Give a verdict on those of effects whose outcome nobody knows; return their number."""
    return effects.of_unknown_outcome().update(
        verdict=verdict, verdict_by=storable(by), verdict_at=datetime.now(UTC), verdict_note=storable(note)
    )


def refusal(effect: int) -> str:
    """Return why no verdict can be given on an effect, empty where one can."""
    effects = ToolEffect.objects.using(router.db_for_write(ToolEffect)).filter(pk=effect)
    if effects.of_unknown_outcome().exists():
        return ""
    found = effects.first()
    if found is None:
        return gettext("There is no effect %(effect)s.") % {"effect": effect}
    if found.verdict:
        about = {"effect": effect, "verdict": found.get_verdict_display(), "by": found.verdict_by}
        return gettext("Effect %(effect)s has a verdict already, by %(by)s: %(verdict)s.") % about
    if found.status == EffectStatus.STARTED:
        return gettext("The call of effect %(effect)s may still be going on.") % {"effect": effect}
    about = {"effect": effect, "status": found.get_status_display()}
    return gettext("Effect %(effect)s is known to be %(status)s.") % about
