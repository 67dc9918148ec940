"""What is to be run: a mount without its HTTP half, and one run of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django_pydantic_agent.policy.audit import AuditLogger
from django_pydantic_agent.policy.failure import REDACT, FailurePolicy
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.stores.approvals import Answer
from django_pydantic_agent.stores.base import Idempotency, RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, TurnStart
from django_pydantic_agent.stores.leases import Orphan

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """How the runs of one mount are made. `run_timeout` is in seconds; hooks may be synchronous or not.

    `source` is a `ToolRegistry`, a pydantic-ai Agent, or a callable without arguments that returns one. `step_store` is
    a factory `RunRequest -> StepStore`; the harness is imported only where there is one. `title_for_thread` is called
    with the `RunRequest` and the messages of a thread, once the run that has opened it has ended. `approval_policy`
    says of a tool call, by name and arguments, whether a person has to approve it, beside the tools that say so.
    """

    source: Any
    server: str
    model: Any = None
    instructions: Any = None
    model_settings: Any = None
    usage_limits: Any = None
    run_timeout: float | None = None
    model_for_request: Callable[[RunRequest], Any] | None = None
    instructions_for_request: Callable[[RunRequest], Any] | None = None
    deps_factory: Callable[[RunRequest], Any] | None = None
    toolsets: Sequence[Any] = ()
    capabilities: Sequence[Any] = ()
    step_store: Callable[[Any], Any] | None = None
    executor: str = "default"
    snapshot_save_mode: Literal["roundtrip", "run_end"] = "roundtrip"
    on_orphan: Literal["fail", "resume"] = "fail"
    title_for_thread: Callable[..., Any] | None = None
    approval_policy: Callable[[RunRequest, str, dict[str, Any]], Any] | None = None
    failure_policy: FailurePolicy = REDACT
    audit_logger: AuditLogger | None = None


@dataclass(frozen=True, kw_only=True)
class ThreadPlan:
    """What a run does in a thread of `conversation`, as it was decided.

    `start` is what its acceptance writes. A run with `goes_on` continues that run from its last boundary, with the
    results of frontend tools that are among its messages; one with `regenerates` answers the question of its turn anew.
    `catches_up` has the client told what it does not know, and `knows_newest` says that it may overwrite the thread's
    state.
    """

    conversation: ConversationStore
    start: TurnStart
    goes_on: int | None = None
    regenerates: bool = False
    catches_up: bool = False
    knows_newest: bool = True


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run that was accepted. `source` is the run it continues; `digest` tells apart what was posted.

    A run with `answers` to interrupts goes on where the run stopped that asked; what the runs of the keys in `gives_up`
    asked is cancelled, and those of the keys in `stops` are asked to stop. `cancel_after` is for how many seconds the
    run goes on while nobody watches it, None where it always does. `orphan` is what another process has left of the
    run, None where none has begun it.
    """

    config: AgentConfig
    request: RunRequest
    run_input: "RunAgentInput"
    store: RunStore
    digest: str
    scope: str = ""
    source: StoredRun | None = None
    protocol: str = ""
    cancel_after: float | None = None
    thread: ThreadPlan | None = None
    idempotency: Idempotency | None = None
    answers: Sequence[Answer] = ()
    gives_up: Sequence[int] = ()
    stops: Sequence[int] = ()
    orphan: Orphan | None = None

    @property
    def keeps_boundaries(self) -> bool:
        """Whether each boundary of the history is kept: for the thread, or for another process to go on from."""
        return self.thread is not None or (self.config.on_orphan == "resume" and self.store.leases is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """How the runs of one mount are made, and where its threads are kept."""

    config: AgentConfig
    conversation: ConversationStore | None = None
