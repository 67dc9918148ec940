"""When what happened in a run: a record without content, kept with the run and logged at its end."""

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _

if TYPE_CHECKING:
    from django_pydantic_agent.runs.journal import CommitTimes

logger = logging.getLogger(__name__)

LABELS = {
    "accepted": _("accepted"),
    "began": _("began"),
    "first_delta": _("first delta"),
    "last_delta": _("last delta"),
    "first_viewer": _("first viewer served"),
    "end": _("ended"),
    "commits": _("commits"),
    "longest_commit": _("longest commit"),
    "retries": _("commits tried again"),
    "failures": _("commits refused"),
}
COUNTS = frozenset({"commits", "retries", "failures"})


class Stopwatch:
    """Takes the times of one run, in seconds since it was accepted."""

    def __init__(self, accepted: datetime) -> None:
        self._accepted = accepted
        # From here on by a clock that nobody sets; before, the run may have been in another process.
        self._zero = time.monotonic() - max((datetime.now(UTC) - accepted).total_seconds(), 0.0)
        self._began: float | None = None
        self._first_delta: float | None = None
        self._last_delta: float | None = None
        self._ended: float | None = None

    def begin(self) -> None:
        """Note that the agent begins."""
        self._began = time.monotonic()

    def delta(self) -> None:
        """Note that a piece of a text, a thought or a tool's arguments came."""
        self._last_delta = time.monotonic()
        if self._first_delta is None:
            self._first_delta = self._last_delta

    def end(self) -> None:
        """Note that nothing more comes than the terminal event."""
        if self._ended is None:
            self._ended = time.monotonic()

    def record(self, *, commits: "CommitTimes | None" = None, first_viewer: float | None = None) -> dict[str, Any]:
        """Return the record; None stands for what did not happen or is not known.

        `first_viewer` is when the first viewer in this process was given frames, by the monotonic clock.
        """
        return {
            "accepted": self._accepted.isoformat(),
            "began": self._since_accepted(self._began),
            "first_delta": self._since_accepted(self._first_delta),
            "last_delta": self._since_accepted(self._last_delta),
            "first_viewer": self._since_accepted(first_viewer),
            "end": self._since_accepted(self._ended),
            "commits": commits and commits.count,
            "longest_commit": commits and round(commits.longest, 6),
            "retries": commits and commits.retries,
            "failures": commits and commits.failures,
        }

    def _since_accepted(self, moment: float | None) -> float | None:
        return None if moment is None else round(moment - self._zero, 6)


def log_timing(run_id: str, status: str, timing: Mapping[str, Any]) -> None:
    """Log how a run went; handlers find the record itself as `timing`."""
    told = ", ".join(f"{label} {value}" for label, value in readable(timing))
    logger.info("Run %r is %s: %s.", run_id, status, told, extra={"timing": dict(timing)})


def readable(timing: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a record holds, as label and text."""
    for name, label in LABELS.items():
        value = timing.get(name)
        if value is None:
            yield label, "-"
        elif name in COUNTS or name == "accepted":
            yield label, str(value)
        else:
            yield label, f"{value:.3f} s"
