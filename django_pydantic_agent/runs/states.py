"""The states of a run, the changes between them, and what becomes of what a run asks."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class RunStatus(TextChoices):
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    INTERRUPTED = "interrupted", _("Interrupted")
    FINISHED = "finished", _("Finished")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")
    ORPHANED = "orphaned", _("Orphaned")

    @property
    def is_live(self) -> bool:
        return self in LIVE


LIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING})
ENDED = frozenset(RunStatus) - LIVE
CUT = frozenset({RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ORPHANED})

TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ORPHANED}),
    RunStatus.RUNNING: ENDED,
} | {status: frozenset() for status in ENDED}


def sources_of(status: RunStatus) -> list[RunStatus]:
    """Return the states from which a run may become `status`."""
    return [source for source, targets in TRANSITIONS.items() if status in targets]


class Question(TextChoices):
    """What an interrupt asks of a tool call: the reasons that interrupts have on the wire."""

    TOOL_CALL = "tool_call", _("may it be called?")
    UNKNOWN_EFFECT = "unknown_effect", _("has it acted?")


class Decision(TextChoices):
    """What has become of an interrupt."""

    PENDING = "pending", _("Pending")
    APPROVED = "approved", _("Approved")
    DENIED = "denied", _("Denied")
    CANCELLED = "cancelled", _("Cancelled")
    EXPIRED = "expired", _("Expired")
