"""What a run asked of a person, and what was answered, as stores keep it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_pydantic_agent.runs.states import Decision, Question
from django_pydantic_agent.stores.effects import Verdict

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

_VERDICTS = {Decision.APPROVED: Verdict.HAPPENED, Decision.DENIED: Verdict.DID_NOT_HAPPEN}


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The tool call that an interrupt is about; `arguments` is the JSON text that the model wrote."""

    tool_name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInterrupt:
    """An interrupt as it was when it was read.

    `run` is the key of the run that asked, `reason` what for, `tool_call_id` the id on the wire. `decided_by` is the
    key of the run that was accepted with the decision, `answer` what a person said, both None before.
    """

    run: int
    id: str
    tool_call_id: str
    call: AskedCall
    reason: str = Question.TOOL_CALL
    expires_at: datetime | None = None
    decision: Decision = Decision.PENDING
    answer: "JsonObject | None" = None
    decided_by: int | None = None

    @property
    def verdict(self) -> Verdict | None:
        """What the decision says of the call, where it was asked whether that has acted; None where it says nothing."""
        return _VERDICTS.get(self.decision)

    @property
    def has_expired(self) -> bool:
        """Whether nobody has answered in time."""
        return (
            self.decision is Decision.PENDING and self.expires_at is not None and self.expires_at <= datetime.now(UTC)
        )

    @property
    def is_open(self) -> bool:
        """Whether the interrupt waits for an answer."""
        return self.decision is Decision.PENDING and not self.has_expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision on the interrupt `id` of the run of key `run`; `said` is JSON that an equal answer equals.

    With `verdict_on`, the id on the wire of a call, it says whether that call has acted.
    """

    run: int
    id: str
    decision: Decision
    said: "JsonObject"
    verdict_on: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """What it says of the call, None where it says nothing."""
        return _VERDICTS.get(self.decision) if self.verdict_on else None


def expires_at(interrupt: "JsonObject") -> datetime | None:
    """Return when an interrupt in AG-UI form expires, None where it never does."""
    moment = interrupt.get("expiresAt")
    return None if moment is None else datetime.fromisoformat(moment)


def unexpired(interrupts: "Iterable[JsonObject]") -> "list[JsonObject]":
    """Return those of interrupts in AG-UI form that can be answered still."""
    now = datetime.now(UTC)
    return [interrupt for interrupt in interrupts if (moment := expires_at(interrupt)) is None or moment > now]


def asked_interrupts(run: int, interrupts: "Iterable[JsonObject]", calls: Any) -> list[StoredInterrupt]:
    """Return interrupts in AG-UI form, which a run ends with, as they are stored; `calls` are theirs by id."""
    return [
        StoredInterrupt(
            run=run,
            id=interrupt["id"],
            tool_call_id=interrupt.get("toolCallId") or "",
            call=calls.get(interrupt["id"]) or AskedCall("", ""),
            reason=interrupt.get("reason", Question.TOOL_CALL),
            expires_at=expires_at(interrupt),
        )
        for interrupt in interrupts
    ]
