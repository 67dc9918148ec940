"""Who executes which run, in a store that several processes share."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from django_pydantic_agent.stores.base import StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.stores.conversations import ConversationStore

RELEASED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease of a live run as one look found it: whoever finds an equal one later saw no beat in between.

    Who has let go of a run has set its `beat` to `RELEASED`; nobody need wait to take that run over.
    """

    run: int
    epoch: int
    beat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A run that was taken over, with all that is kept of how it was to be executed.

    `run` has the new epoch. `parent` is the key of the run that it continues, where that is still there. `request` is
    what `NewRun.request` was. `unresolved` names the tools whose effect is unknown. `conversation` is where the run's
    part of its thread is saved, None outside of threads; `state_seq` is the seq of the run as of which the thread's
    state was saved by it, 0 where it never was.
    """

    run: StoredRun
    parent: int | None = None
    request: dict[str, Any] | None = None
    cancel_requested: bool = False
    unresolved: Sequence[str] = ()
    conversation: "ConversationStore | None" = None
    state_seq: int = 0


class RunLeases(Protocol):
    """Who executes which run, in a store that several processes share. Synchronous and thread-safe."""

    def beat(self, epochs: Mapping[int, int]) -> Collection[int]:
        """Show that the runs of these keys go on in their epochs; return the keys of those that go on elsewhere."""
        ...

    def request_cancel(self, run: int) -> bool:
        """Note that a run is to stop; False where it has ended or is gone."""
        ...

    def cancelled(self, runs: Collection[int]) -> Collection[int]:
        """Return those of the runs that are to stop."""
        ...

    def show_viewers(self, runs: Collection[int]) -> None:
        """Show that the runs are watched in this process."""
        ...

    def viewer_signs(self, runs: Collection[int]) -> Mapping[int, int]:
        """Return how often it was shown for each of the runs that it is watched."""
        ...

    def live(self) -> Sequence[Lease]:
        """Return the lease of every live run."""
        ...

    def take_over(self, lease: Lease) -> Orphan | None:
        """Begin the run's next epoch, so that nobody else can write it; None where it is not as it was seen."""
        ...

    def begin_attempt(self, run: StoredRun) -> StoredRun | None:
        """Count one more attempt at a run that was taken over; None where it goes on elsewhere by now."""
        ...

    def release(self, run: int, epoch: int) -> None:
        """Let go of a run that goes on in this epoch, so that it is taken over at once."""
        ...
