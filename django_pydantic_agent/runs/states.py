"""The states of a run, the changes between them, and what becomes of what a run asks."""

from django.db.models import TextChoices


class RunStatus(TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"

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


class Decision(TextChoices):
    """What has become of an interrupt."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
