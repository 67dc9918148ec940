"""Threads and their messages."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.fields import DigestField, InstantField, OptionalTextField
from django_pydantic_agent.contrib.store.querysets import ThreadQuerySet


class Thread(models.Model):
    """A conversation of one owner.

    `state` is JSON, empty where none was ever written, as of event `state_seq` of the run `state_run`. `waiting_run` is
    the run whose calls and interrupts are open. Runs are named by their primary keys; they may be gone.
    """

    owner = models.TextField(_("owner"))
    scope = models.TextField(_("scope"), blank=True, default="")
    thread_id = models.TextField(_("thread id"))
    owner_digest = DigestField()
    partition_digest = DigestField()
    thread_digest = DigestField()

    title = models.TextField(_("title"), blank=True, default="")
    is_titled_by_person = models.BooleanField(_("titled by a person"), default=False)
    preview = OptionalTextField(_("preview"))
    is_archived = models.BooleanField(_("archived"), default=False)
    revision = models.BigIntegerField(_("revision"), default=0)
    turns = models.PositiveIntegerField(_("turns"), default=0)
    next_turn = models.PositiveIntegerField(default=1)
    state = models.BinaryField(default=b"")
    state_run = models.BigIntegerField(null=True)
    state_seq = models.BigIntegerField(default=0)
    waiting_run = models.BigIntegerField(null=True)
    open_calls = models.JSONField(_("open calls"), default=list)
    open_interrupts = models.JSONField(_("open interrupts"), default=list)
    created_at = InstantField(_("started"))
    updated_at = InstantField(_("changed"))

    objects = ThreadQuerySet.as_manager()

    class Meta:
        verbose_name = _("thread")
        verbose_name_plural = _("threads")
        permissions = (("export_thread", "Can export thread"),)
        constraints = (models.UniqueConstraint(fields=["thread_digest"], name="dpa_store_thread_digest"),)
        indexes = (
            models.Index(fields=["partition_digest", "is_archived", "updated_at", "id"], name="dpa_store_thread_list"),
            models.Index(fields=["owner_digest", "id"], name="dpa_store_thread_owner"),
        )

    def __str__(self) -> str:
        return self.thread_id


class Role(models.TextChoices):
    """Who speaks in a message, in the words of AG-UI."""

    USER = "user", _("user")
    ASSISTANT = "assistant", _("assistant")
    TOOL = "tool", _("tool")
    REASONING = "reasoning", _("reasoning")
    ACTIVITY = "activity", _("activity")
    SYSTEM = "system", _("system")
    DEVELOPER = "developer", _("developer")


class ThreadMessage(models.Model):
    """An AG-UI message, as JSON; of a large one a piece, the first of which counts them all.

    The order of a thread is that of (turn, run, place). Turn 0 holds what was imported. `run` is the primary key of the
    run that accepted or wrote the message. It is no foreign key, because the message outlives the run, and so is
    `superseded_by`, the run that replaced the message. `through_seq` is the last event of `run` that is in it.
    """

    thread = models.ForeignKey(
        "Thread", on_delete=models.CASCADE, db_index=False, related_name="messages", verbose_name=_("thread")
    )
    turn = models.PositiveIntegerField(_("turn"))
    run = models.BigIntegerField(_("run"))
    place = models.PositiveIntegerField(_("place"))
    piece = models.PositiveIntegerField(default=0)
    pieces = models.PositiveIntegerField(default=1)
    message_id = models.TextField(_("message id"))
    role = models.CharField(_("role"), max_length=16, choices=Role.choices)
    content_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    through_seq = models.BigIntegerField()
    superseded_by = models.BigIntegerField(_("superseded by"), null=True)
    body = models.BinaryField()

    class Meta:
        verbose_name = _("thread message")
        verbose_name_plural = _("thread messages")
        constraints = (
            models.UniqueConstraint(fields=["thread", "turn", "run", "place", "piece"], name="dpa_store_message_place"),
        )

    def __str__(self) -> str:
        return self.message_id
