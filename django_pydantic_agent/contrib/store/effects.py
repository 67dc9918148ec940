"""Tool effects of a run and of the delegates that ran inside it, and the settling of those without an outcome."""

from datetime import UTC, datetime

from django.db import router
from django.utils.translation import gettext

from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus
from django_pydantic_agent.contrib.store.querysets import RunQuerySet, ToolEffectQuerySet
from django_pydantic_agent.log.frames import storable
from django_pydantic_agent.stores.effects import Verdict


def effects_of(run: int, *, using: str) -> "ToolEffectQuerySet[ToolEffect]":
    """Return the effects of a run and of its delegates, in the order in which the calls began."""
    runs: RunQuerySet = Run.objects.using(using).filter(pk=run)
    return ToolEffect.objects.using(using).filter(run__in=runs.keys_with_delegates()).order_by("pk")


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
    about = {"effect": effect, "verdict": found.verdict, "by": found.verdict_by, "status": found.status}
    if found.verdict:
        return gettext("Effect %(effect)s has the verdict %(verdict)s by %(by)s already.") % about
    if found.status == EffectStatus.STARTED:
        return gettext("The call of effect %(effect)s may still be going on.") % about
    return gettext("Effect %(effect)s is known to be %(status)s.") % about
