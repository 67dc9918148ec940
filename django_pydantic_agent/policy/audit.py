"""What an audit logger is given: one record for each tool call and each run, without content."""

import inspect
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from asgiref.sync import async_to_sync
from pydantic_core import to_json

from django_pydantic_agent.policy.failure import lacks_permission

if TYPE_CHECKING:
    from pydantic_ai.messages import ToolCallPart

    from django_pydantic_agent.runs.announcer import Announcer
    from django_pydantic_agent.stores.base import StoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A tool call or a run that has ended.

    `owner` is the owner's key, None without a durable identity; `server` is the namespace of the mount. The `outcome`
    of a run is its status; that of a tool call is `completed`, `retried` (the model is asked to try again), `deferred`
    (it waits for a person or a client), `denied`, `failed` or `cancelled`. `duration_seconds` of a run counts from its
    acceptance. `input_bytes` is the size of what a run was posted with or of a call's arguments, `output_bytes` that of
    the events which the run has logged or of what the call has returned, None where that is not known. `delegate` is
    the id under which the ledger has the agent that made the call, empty where that is the run's own.
    """

    kind: Literal["run", "tool"]
    run_id: str
    thread_id: str
    attempt: int
    owner: str | None
    server: str
    outcome: str
    duration_seconds: float
    input_bytes: int
    output_bytes: int | None
    tool: str = ""
    tool_call_id: str = ""
    delegate: str = ""

    @classmethod
    def of(cls, kind: Literal["run", "tool"], run: "StoredRun", **about: Any) -> "AuditRecord":
        """Return a record of `run` or of one of its tool calls, with the rest of its fields."""
        return cls(
            kind=kind,
            run_id=run.run_id,
            thread_id=run.thread_id,
            attempt=run.attempt,
            owner=run.owner.key if run.owner else None,
            server=run.server,
            **about,
        )


AuditLogger = Callable[[AuditRecord], Any]


@dataclass(frozen=True, slots=True)
class Audit:
    """Has an audit logger called with what happened in one run, by the announcer; the run does not wait for it.

    `delegate` is the id of the agent inside the run whose calls are told of, empty for the run's own.
    """

    audit_logger: AuditLogger
    run: "StoredRun"
    announcer: "Announcer"
    delegate: str = ""

    async def record_call(
        self, call: "ToolCallPart", *, started: float, outcome: str, output_bytes: int | None
    ) -> None:
        """Tell of a tool call that began at `started`, by the monotonic clock, and has ended now."""
        await self.record(
            "tool",
            tool=call.tool_name,
            tool_call_id=call.tool_call_id,
            outcome=outcome,
            duration_seconds=time.monotonic() - started,
            input_bytes=len(call.args_as_json_str().encode(errors="replace")),
            output_bytes=output_bytes,
            delegate=self.delegate,
        )

    async def record(self, kind: Literal["run", "tool"], **about: Any) -> None:
        """Tell of a run or a tool call that has ended, with the rest of its record."""
        await self.announcer.tell(partial(tell, self.audit_logger, AuditRecord.of(kind, self.run, **about)))


def tell(audit_logger: AuditLogger, record: AuditRecord) -> None:
    """Call an audit logger, which may be a coroutine function."""
    result = audit_logger(record)
    if inspect.isawaitable(result):
        async_to_sync(_wait)(result)


def outcome_of_call(error: BaseException) -> str:
    """Return the outcome of a tool call that has raised."""
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolRetryError

    match error:
        case CancelledError():
            return "cancelled"
        case ModelRetry() | ToolRetryError():
            return "retried"
        case ApprovalRequired() | CallDeferred():
            return "deferred"
        case _:
            return "denied" if lacks_permission(error) else "failed"


def size_of(value: Any) -> int | None:
    """Return the bytes of a tool's result as text or JSON, None where it cannot be written so."""
    value = getattr(value, "return_value", value)
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    try:
        return len(to_json(value, bytes_mode="base64", serialize_unknown=True))
    except (ValueError, RecursionError):
        return None


async def _wait(result: Awaitable[Any]) -> None:
    await result
