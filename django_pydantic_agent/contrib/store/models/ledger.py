"""The harness ledger: each field of its records. The order of writing is that of `id`."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.fields import DigestField, InstantField, OptionalTextField
from django_pydantic_agent.contrib.store.models.runs import Run
from django_pydantic_agent.contrib.store.querysets import ToolEffectQuerySet
from django_pydantic_agent.stores.effects import Reason, Verdict

# The columns that are a field of the harness's record, by its name and in the order in which the admin shows them.
EVENT_FIELDS = (
    "kind",
    "step_index",
    "timestamp",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "tool_call_id",
    "tool_name",
    "error",
    "metadata",
    "idempotency_key",
)
SNAPSHOT_FIELDS = (
    "state",
    "step_index",
    "timestamp",
    "conversation_id",
    "parent_run_id",
    "agent_name",
    "idempotency_key",
)
EFFECT_FIELDS = (
    "tool_call_id",
    "tool_name",
    "status",
    "started_at",
    "ended_at",
    "idempotency_key",
    "effect_summary",
)
# What the engine knows of an effect beside the harness's record.
EFFECT_TEXTS = ("reason", "arguments", "result")
VERDICT = ("verdict", "verdict_by", "verdict_at", "verdict_note")


class SnapshotState(models.TextChoices):
    COMPLETE = "complete", _("complete")
    INTERRUPTED = "interrupted", _("interrupted")


class EffectStatus(models.TextChoices):
    STARTED = "started", _("started")
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")


class StepEvent(models.Model):
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="step_events", verbose_name=_("run")
    )
    kind = models.CharField(_("kind"), max_length=64)
    step_index = models.IntegerField(_("step"))
    timestamp = InstantField(_("time"))
    conversation_id = OptionalTextField(_("conversation id"))
    parent_run_id = OptionalTextField(_("parent run id"))
    agent_name = OptionalTextField(_("agent"))
    tool_call_id = OptionalTextField(_("tool call id"))
    tool_name = OptionalTextField(_("tool"))
    error = OptionalTextField(_("error"))
    metadata = models.JSONField(_("metadata"), default=dict)
    idempotency_key = OptionalTextField(_("idempotency key"))
    key_digest = DigestField(null=True)

    class Meta:
        verbose_name = _("step event")
        verbose_name_plural = _("step events")
        constraints = (models.UniqueConstraint(fields=["run", "key_digest"], name="dpa_store_event_key"),)
        indexes = (models.Index(fields=["run", "id"], name="dpa_store_event_run"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.step_index}"


class Snapshot(models.Model):
    """A point from which a run can be continued: the first `history_size` bytes of a history.

    A pruned snapshot is not shown any more; its row stays, because its idempotency key still counts.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="snapshots", verbose_name=_("run")
    )
    state = models.CharField(_("state"), max_length=16, choices=SnapshotState.choices)
    step_index = models.IntegerField(_("step"))
    timestamp = InstantField(_("time"))
    conversation_id = OptionalTextField(_("conversation id"))
    parent_run_id = OptionalTextField(_("parent run id"))
    agent_name = OptionalTextField(_("agent"))
    history_writer = models.BigIntegerField()
    history_number = models.BigIntegerField()
    history_size = models.BigIntegerField(_("size in bytes"))
    message_count = models.PositiveIntegerField(_("messages"))
    idempotency_key = OptionalTextField(_("idempotency key"))
    key_digest = DigestField(null=True)
    is_pruned = models.BooleanField(_("pruned"), default=False)

    class Meta:
        verbose_name = _("snapshot")
        verbose_name_plural = _("snapshots")
        constraints = (models.UniqueConstraint(fields=["run", "key_digest"], name="dpa_store_snapshot_key"),)
        indexes = (
            models.Index(fields=["run", "id"], name="dpa_store_snapshot_run"),
            models.Index(fields=["history_writer"], name="dpa_store_snapshot_history"),
        )

    def __str__(self) -> str:
        return f"{self.state} {self.step_index}"


class ToolEffect(models.Model):
    """The state of one tool call's side effect. `reason` says why nobody knows whether a call has acted.

    `arguments` and `result` are short texts without secrets. A verdict leaves `status` as it was, and what the ledger
    learns later leaves the verdict.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="tool_effects", verbose_name=_("run")
    )
    tool_call_id = models.TextField(_("tool call id"))
    call_digest = DigestField()
    tool_name = models.TextField(_("tool"))
    status = models.CharField(_("status"), max_length=16, choices=EffectStatus.choices)
    started_at = InstantField(_("started"))
    ended_at = InstantField(_("ended"), null=True)
    idempotency_key = OptionalTextField(_("idempotency key"))
    effect_summary = OptionalTextField(_("summary"))
    reason = models.CharField(_("reason"), max_length=16, choices=Reason.choices, blank=True, default="")
    arguments = models.TextField(_("arguments"), blank=True, default="")
    result = models.TextField(_("result"), blank=True, default="")
    verdict = models.CharField(_("verdict"), max_length=16, choices=Verdict.choices, blank=True, default="")
    verdict_by = models.TextField(_("verdict by"), blank=True, default="")
    verdict_at = InstantField(_("verdict at"), null=True)
    verdict_note = models.TextField(_("note"), blank=True, default="")

    objects = ToolEffectQuerySet.as_manager()

    class Meta:
        verbose_name = _("tool effect")
        verbose_name_plural = _("tool effects")
        constraints = (models.UniqueConstraint(fields=["run", "call_digest"], name="dpa_store_effect_call"),)
        indexes = (
            models.Index(fields=["run", "status"], name="dpa_store_effect_run"),
            models.Index(fields=["status", "id"], name="dpa_store_effect_status"),
        )

    def __str__(self) -> str:
        return f"{self.tool_name} {self.tool_call_id}"
