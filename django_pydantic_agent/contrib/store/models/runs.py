"""Runs and their event logs."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.fields import DigestField, InstantField, OptionalTextField
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.runs.states import RunStatus


class Run(models.Model):
    """One run: what the engine knows of it and what the harness has registered.

    A row that only the ledger has, such as that of a delegate agent, has `is_ledger_only` and no status. The row of the
    engine is there before the harness registers the run; `registered_at` is null until then.
    """

    owner = models.TextField(_("owner"))
    scope = models.TextField(_("scope"), blank=True, default="")
    run_id = models.TextField(_("run id"))
    thread_id = models.TextField(_("thread id"), blank=True, default="")
    owner_digest = DigestField()
    partition_digest = DigestField()
    run_digest = DigestField()
    thread_digest = DigestField()

    parent = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        db_index=False,
        related_name="children",
        verbose_name=_("parent"),
    )
    parent_run_id = OptionalTextField(_("parent run id"))
    parent_digest = DigestField(null=True)

    # The part of the run in its thread; `superseded_by` is the primary key of the run that replaced what it wrote.
    in_thread = models.ForeignKey(
        "Thread",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        db_index=False,
        related_name="runs",
        verbose_name=_("thread"),
    )
    turn = models.PositiveIntegerField(_("turn"), null=True)
    superseded_by = models.BigIntegerField(_("superseded by"), null=True)

    # The model's messages before the run and at its newest boundary, by the names of stretches of history.
    seed_writer = models.BigIntegerField(default=0)
    seed_number = models.BigIntegerField(default=0)
    seed_size = models.BigIntegerField(default=0)
    history_writer = models.BigIntegerField(default=0)
    history_number = models.BigIntegerField(default=0)
    history_size = models.BigIntegerField(default=0)
    boundary_seq = models.BigIntegerField(_("newest boundary"), default=0)

    server = models.TextField(_("server"), blank=True, default="")
    status = models.CharField(_("status"), max_length=16, choices=RunStatus.choices, blank=True, default="")
    is_ledger_only = models.BooleanField(_("ledger only"), default=False)
    input = models.BinaryField(_("input"), default=b"")
    body_digest = models.CharField(_("digest of the body"), max_length=64, blank=True, default="")
    content_digest = models.CharField(_("digest of the body without its run id"), max_length=64, blank=True, default="")
    idempotency_key = OptionalTextField(_("idempotency key"))
    idempotency_digest = DigestField(null=True)
    protocol = models.CharField(_("protocol"), max_length=32, blank=True, default="")
    message_ids = models.JSONField(_("accepted message ids"), default=list)
    output_message_ids = models.JSONField(_("written message ids"), default=list)
    first_seq = models.BigIntegerField(_("first event kept"), default=1)
    last_seq = models.BigIntegerField(_("last event"), default=0)
    ledger_seq = models.BigIntegerField(_("last ledger change"), default=0)
    attempt = models.PositiveIntegerField(_("attempt"), default=1)
    epoch = models.PositiveIntegerField(_("epoch"), default=1)
    beat = models.BigIntegerField(_("beat"), default=0)
    cancel_requested = models.BooleanField(_("asked to stop"), default=False)
    cancel_after = models.FloatField(_("goes on unwatched for"), null=True)
    viewer_signs = models.BigIntegerField(_("signs of viewers"), default=0)
    request = models.JSONField(_("request"), null=True)
    error = models.JSONField(_("error"), null=True)
    interrupts = models.JSONField(_("interrupts"), default=list)
    pending_calls = models.JSONField(_("pending frontend calls"), default=list)
    usage = models.JSONField(_("usage"), null=True)
    timing = models.JSONField(_("timing"), null=True)
    # Frames of the preamble of an ended run, one per line, compressed; see `KeptFold`.
    folded = models.BinaryField(default=b"")
    created_at = InstantField(_("started"))
    finished_at = InstantField(_("finished"), null=True)

    registration_id = OptionalTextField(_("registration id"))
    registered_at = InstantField(_("registered"), null=True)
    conversation_id = OptionalTextField(_("conversation id"))
    conversation_digest = DigestField(null=True)
    agent_name = OptionalTextField(_("agent"))
    metadata = models.JSONField(_("metadata"), default=dict)
    preview = OptionalTextField(_("preview"))
    is_continuable = models.BooleanField(_("continuable"), default=False)

    objects = RunQuerySet.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        permissions = (("cancel_run", "Can cancel run"), ("export_run", "Can export run"))
        constraints = (
            models.UniqueConstraint(fields=["run_digest"], name="dpa_store_run_digest"),
            models.UniqueConstraint(fields=["idempotency_digest"], name="dpa_store_run_idempotency"),
        )
        indexes = (
            models.Index(fields=["partition_digest", "is_ledger_only", "id"], name="dpa_store_run_partition"),
            models.Index(fields=["thread_digest", "id"], name="dpa_store_run_thread"),
            models.Index(fields=["conversation_digest"], name="dpa_store_run_conversation"),
            models.Index(fields=["parent_digest"], name="dpa_store_run_parent_digest"),
            models.Index(fields=["parent"], name="dpa_store_run_parent"),
            models.Index(fields=["owner_digest", "id"], name="dpa_store_run_owner"),
            models.Index(fields=["status", "id"], name="dpa_store_run_status"),
            models.Index(fields=["in_thread", "turn", "id"], name="dpa_store_run_turn"),
            models.Index(fields=["seed_writer"], name="dpa_store_run_seed"),
            models.Index(fields=["history_writer"], name="dpa_store_run_history"),
        )

    def __str__(self) -> str:
        return self.run_id


class RunFrames(models.Model):
    """A stretch of a run's log: encoded frames, one per line, cut into pieces where the stretch is large.

    A stretch is known by its last seq. `size` is that of its frames before compression, in bytes, on each piece.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="frames")
    first_seq = models.BigIntegerField()
    last_seq = models.BigIntegerField()
    piece = models.PositiveIntegerField(default=0)
    is_compressed = models.BooleanField(default=False)
    size = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        verbose_name = _("stretch of the log")
        verbose_name_plural = _("stretches of the log")
        constraints = (models.UniqueConstraint(fields=["run", "last_seq", "piece"], name="dpa_store_frames_seq"),)

    def __str__(self) -> str:
        return f"{self.first_seq}-{self.last_seq}"
