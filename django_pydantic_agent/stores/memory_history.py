"""One run in the memory of a process, and the model's messages of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import Decision
from django_pydantic_agent.stores.approvals import StoredInterrupt
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.writes import LedgerChange

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

IdempotencyName = tuple[Owner, str, str, str]


@dataclass(slots=True)
class MemoryRun:
    run: StoredRun
    input: bytes
    message_ids: list[str]
    request: dict[str, Any] | None
    frames: list[bytes] = field(default_factory=list)
    folded: Sequence[bytes] = ()
    parent: int | None = None
    start: "list[ModelMessage]" = field(default_factory=list)
    end: "list[ModelMessage]" = field(default_factory=list)
    boundary_seq: int = 0
    idempotency_name: IdempotencyName | None = None
    place: tuple[int, int] = (0, 0)
    asked: dict[str, StoredInterrupt] = field(default_factory=dict)

    def stored(self) -> StoredRun:
        """Return the run with those of its interrupts that are open now."""
        if not self.asked:
            return self.run
        interrupts = [interrupt for interrupt in self.run.interrupts if self.asked[interrupt["id"]].is_open]
        return replace(self.run, interrupts=interrupts)

    @property
    def undecided(self) -> list[StoredInterrupt]:
        return [interrupt for interrupt in self.asked.values() if interrupt.decision is Decision.PENDING]

    def give_up(self, decision: Decision, *, decided_by: int | None = None) -> list[str]:
        given_up = self.undecided
        for interrupt in given_up:
            self.asked[interrupt.id] = replace(interrupt, decision=decision, decided_by=decided_by)
        return [interrupt.id for interrupt in given_up]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The newest boundary of a run; its messages may be stamped later, as those of the run itself are."""

    messages: "list[ModelMessage]"
    seq: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class MemoryHistory:
    """The model's messages of one live run in memory."""

    entries: dict[int, MemoryRun]
    entry: MemoryRun

    def begin(self, run: int | None, at: Literal["start", "end"] = "end") -> "list[ModelMessage]":
        earlier = None if run is None else self.entries.get(run)
        if earlier is not None:
            self.entry.start = self.entry.end = earlier.start if at == "start" else earlier.end
        return list(self.entry.start)

    def resume(self) -> "list[ModelMessage]":
        return list(self.entry.end)

    def save(self, messages: "list[ModelMessage]", *, seq: int) -> LedgerChange:
        return Boundary(messages, seq)
