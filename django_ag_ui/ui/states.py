"""The words in which pages tell how a run is doing, and what can be done next."""

from django.db.models import TextChoices
from django.utils.translation import pgettext_lazy

from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import StoredRun


class State(TextChoices):
    """How a run is doing, in the eyes of the person who started it."""

    QUEUED = "queued", pgettext_lazy("state of a run", "Queued")
    RUNNING = "running", pgettext_lazy("state of a run", "Running")
    WAITING = "waiting", pgettext_lazy("state of a run", "Waiting for you")
    ANSWERED = "answered", pgettext_lazy("state of a run", "Answered")
    FINISHED = "finished", pgettext_lazy("state of a run", "Finished")
    FAILED = "failed", pgettext_lazy("state of a run", "Failed")
    CANCELLED = "cancelled", pgettext_lazy("state of a run", "Cancelled")
    ORPHANED = "orphaned", pgettext_lazy("state of a run", "Ended by a crash")

    @classmethod
    def of(cls, run: StoredRun) -> "State":
        if run.status is RunStatus.INTERRUPTED:
            return cls.WAITING if run.pending_interrupts else cls.ANSWERED
        return cls(run.status.value)

    @property
    def is_live(self) -> bool:
        return self in (State.QUEUED, State.RUNNING)


class Action(TextChoices):
    """What a person does first with a run."""

    REATTACH = "reattach", pgettext_lazy("what to do with a run", "Reattach")
    ANSWER = "answer", pgettext_lazy("what to do with a run", "Answer")
    RESUME = "resume", pgettext_lazy("what to do with a run", "Resume")
    VIEW = "view", pgettext_lazy("what to do with a run", "View")

    @classmethod
    def of(cls, run: StoredRun) -> "Action":
        if run.status.is_live:
            return cls.REATTACH
        if run.pending_interrupts:
            return cls.ANSWER
        return cls.RESUME if run.continuable else cls.VIEW


def unknown_effects(run: StoredRun) -> int:
    """Return of how many tool calls nobody knows what became; those of a live run are still going on."""
    return 0 if run.status.is_live else run.unresolved_effects


FILTERS = {
    RunStatus.QUEUED: State.QUEUED.label,
    RunStatus.RUNNING: State.RUNNING.label,
    RunStatus.INTERRUPTED: pgettext_lazy("runs that have asked something", "Asked"),
    RunStatus.FINISHED: State.FINISHED.label,
    RunStatus.FAILED: State.FAILED.label,
    RunStatus.CANCELLED: State.CANCELLED.label,
    RunStatus.ORPHANED: State.ORPHANED.label,
}
"""The states that a list can be filtered by; whether a run still waits for an answer is no part of its status."""
