"""What runs asked of people, and what these answered."""

from typing import Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.fields import DigestField, InstantField
from django_pydantic_agent.contrib.store.models.runs import Run
from django_pydantic_agent.runs.states import Decision, Question


class InterruptQuerySet(models.QuerySet["Interrupt"]):
    def undecided(self) -> Self:
        """Keep the interrupts that nobody has decided, expired ones included."""
        return self.filter(decision=Decision.PENDING)


class Interrupt(models.Model):
    """One question of a run, written with its end. The order of asking is that of `id`.

    `arguments` is the JSON that the model wrote and `answer` that of the decision, both as text, so that no number
    changes. `decided_by_run` is the primary key of the run that was accepted with the decision, which may be gone.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="asked", verbose_name=_("run"))
    interrupt_id = models.TextField(_("interrupt id"))
    interrupt_digest = DigestField()
    reason = models.CharField(_("reason"), max_length=32, choices=Question.choices, default=Question.TOOL_CALL)
    tool_call_id = models.TextField(_("tool call id"), blank=True, default="")
    tool_name = models.TextField(_("tool"), blank=True, default="")
    arguments = models.TextField(_("arguments"), blank=True, default="")
    message = models.TextField(_("message"), blank=True, default="")
    response_schema = models.JSONField(_("response schema"), null=True)
    expires_at = InstantField(_("expires"), null=True)
    decision = models.CharField(_("decision"), max_length=16, choices=Decision.choices, default=Decision.PENDING)
    answer = models.TextField(_("answer"), blank=True, default="")
    decided_by_run = models.BigIntegerField(_("decided by run"), null=True)
    decided_at = InstantField(_("decided"), null=True)
    decider = models.TextField(_("decider"), blank=True, default="")

    objects = InterruptQuerySet.as_manager()

    class Meta:
        verbose_name = _("interrupt")
        verbose_name_plural = _("interrupts")
        constraints = (models.UniqueConstraint(fields=["run", "interrupt_digest"], name="dpa_store_interrupt_id"),)
        indexes = (
            models.Index(fields=["run", "decision"], name="dpa_store_interrupt_run"),
            models.Index(fields=["decided_by_run"], name="dpa_store_interrupt_decider"),
            models.Index(fields=["decision", "id"], name="dpa_store_interrupt_decision"),
        )

    def __str__(self) -> str:
        return self.interrupt_id
