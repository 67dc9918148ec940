"""How a run ended: its status, its terminal event, and what it leaves for others to answer."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from ag_ui.core import BaseEvent, Interrupt, RunErrorEvent, RunFinishedEvent
from ag_ui.core import RunFinishedCancelledOutcome as Cancelled
from ag_ui.core import RunFinishedInterruptOutcome as Asked
from ag_ui.core import RunFinishedSuccessOutcome as Success
from pydantic_ai.exceptions import RunCancelled, RunTimedOut

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.log.adapter import RunEventStream, ToolCallIds
from django_pydantic_agent.log.frames import encode, wire_form
from django_pydantic_agent.policy.failure import (
    ORPHANED,
    REDACT,
    SHUTDOWN,
    TIMEOUT,
    Failure,
    FailurePolicy,
    shown_failure,
)
from django_pydantic_agent.runs.opening import revision_metadata
from django_pydantic_agent.runs.states import CUT, Question, RunStatus
from django_pydantic_agent.stores.approvals import AskedCall
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.effects import Reason

_WHETHER_IT_ACTED = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "Whether the tool has acted."},
        "reason": {"type": "string", "description": "How that was found out."},
    },
    "required": ["approved"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`cause` is the exception behind a failure, for the log; `pending_calls` are frontend calls by their wire ids.

    `has_crashed` says that calls were cut by the end of an earlier process.
    """

    status: RunStatus
    event: BaseEvent
    error: dict[str, str] | None = None
    cause: BaseException | None = None
    interrupts: Sequence[dict[str, Any]] = ()
    asked_calls: Mapping[str, AskedCall] = field(default_factory=dict)
    pending_calls: Sequence[str] = ()
    usage: dict[str, int] | None = None
    has_crashed: bool = False

    @property
    def waiting(self) -> frozenset[str]:
        """The tool calls that rightly have no result yet."""
        approvals = [interrupt["toolCallId"] for interrupt in self.interrupts if "toolCallId" in interrupt]
        return frozenset([*approvals, *self.pending_calls])

    @property
    def unresolved(self) -> str:
        """The reason why tool effects may be left without an outcome: the end of a cut run cancels its calls."""
        if self.has_crashed:
            return Reason.CRASHED
        if self.status not in CUT:
            return ""
        return Reason.TIMED_OUT if self.error is not None and self.error["code"] == TIMEOUT.code else Reason.CANCELLED

    def frame(self, revision: int | None) -> bytes:
        """Return the terminal frame, which shows the revision that the thread has got."""
        return encode(self.event.model_copy(update={"metadata": revision_metadata(revision)}))


def outcome_of(
    stream: RunEventStream, call_ids: ToolCallIds, run: StoredRun, *, policy: FailurePolicy, shutdown: bool
) -> Outcome:
    """Return how the run of an exhausted stream ended; `shutdown` says that the process cancelled it."""
    if stream.failure is not None:
        return failed(stream.failure, policy=policy)
    if stream.cancelled is not None:
        return stopped(stream.cancelled, run, shutdown=shutdown)
    pending = stream.pending_calls(call_ids)
    usage = _counts(stream.result.usage) if stream.result is not None else None
    if (interrupted := stream.interrupts(call_ids, expires_at=_expiry())) is not None:
        asked, asked_calls = interrupted
        return Outcome(
            status=RunStatus.INTERRUPTED,
            event=_finished(run, asked),
            interrupts=[wire_form(interrupt) for interrupt in asked.interrupts],
            asked_calls=asked_calls,
            pending_calls=pending,
            usage=usage,
        )
    event = _finished(run, Success(pending_tool_call_ids=pending or None))
    return Outcome(status=RunStatus.FINISHED, event=event, pending_calls=pending, usage=usage)


def finished(run: StoredRun) -> Outcome:
    """Return the end of a run whose answer was all there when its process died."""
    return Outcome(status=RunStatus.FINISHED, event=_finished(run, Success()))


def cancelled(run: StoredRun) -> Outcome:
    """Return the end of a run that was asked to stop."""
    return Outcome(status=RunStatus.CANCELLED, event=_finished(run, Cancelled()))


def stopped(error: RunCancelled, run: StoredRun, *, shutdown: bool) -> Outcome:
    """Return the end of a run that was stopped: by its process, by its timeout, or by who asked for that."""
    if shutdown:
        return failed(error, SHUTDOWN)
    return failed(error) if isinstance(error, RunTimedOut) else cancelled(run)


def orphaned(tools: Sequence[str]) -> Outcome:
    """Return the end of a run whose process is gone; `tools` are those of which nobody knows whether they acted."""
    failure = ORPHANED
    if tools:
        message = f"{failure.message} Nobody knows whether these tools have acted: {', '.join(tools)}."
        failure = replace(failure, message=message)
    return replace(_refused(RunStatus.ORPHANED, failure), has_crashed=True)


def asking_what_became(run: StoredRun, calls: Mapping[str, AskedCall]) -> Outcome:
    """Return the end of a run that a crash has cut in `calls`, by their ids on the wire, which may have acted."""
    expires_at = _expiry()
    interrupts = [
        Interrupt(
            id=str(uuid4()),
            reason=Question.UNKNOWN_EFFECT,
            message=f"A crash cut {call.tool_name}({call.arguments}). Approve if it has acted, deny if it has not.",
            tool_call_id=wire_id,
            response_schema=_WHETHER_IT_ACTED,
            expires_at=expires_at,
        )
        for wire_id, call in calls.items()
    ]
    return Outcome(
        status=RunStatus.INTERRUPTED,
        event=_finished(run, Asked(interrupts=interrupts)),
        interrupts=[wire_form(interrupt) for interrupt in interrupts],
        asked_calls={interrupt.id: call for interrupt, call in zip(interrupts, calls.values(), strict=True)},
        has_crashed=True,
    )


def failed(error: BaseException, failure: Failure | None = None, *, policy: FailurePolicy = REDACT) -> Outcome:
    """Return the end of a run that an exception ended; of the exception only what may be shown is in it."""
    return _refused(RunStatus.FAILED, failure or shown_failure(error, policy), error)


def _refused(status: RunStatus, failure: Failure, cause: BaseException | None = None) -> Outcome:
    return Outcome(
        status=status,
        event=RunErrorEvent(message=failure.message, code=failure.code, timestamp=_milliseconds()),
        error={"code": failure.code, "message": failure.message},
        cause=cause,
    )


def _finished(run: StoredRun, outcome: Any) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=run.thread_id, run_id=run.run_id, outcome=outcome, timestamp=_milliseconds())


def _counts(usage: Any) -> dict[str, int]:
    return {
        "requests": usage.requests,
        "tool_calls": usage.tool_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _expiry() -> str | None:
    """Return when what is asked now expires, in ISO 8601, None where it never does."""
    if not (seconds := agent_settings.APPROVAL_EXPIRY_SECONDS):
        return None
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def _milliseconds() -> int:
    return int(time.time() * 1000)
