"""What the engine asks of a place where runs are kept."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.approvals import Answer, StoredInterrupt
from django_pydantic_agent.stores.attempts import attempt_id
from django_pydantic_agent.stores.writes import FrameMaker, KeptFold, LedgerChange, RunWrite

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from django_pydantic_agent.stores.conversations import ConversationStore, TurnStart
    from django_pydantic_agent.stores.leases import RunLeases


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """The key under which a client starts one run, however often it posts.

    `content` is the digest of what was posted, but for the run id.
    """

    key: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run as it is accepted, before anything of it has executed.

    `input` is the accepted `RunAgentInput` as JSON, `digest` tells apart what was posted (route, source run, raw body),
    `message_ids` are the ids of the accepted messages, `first_frame` makes the encoded RUN_STARTED event (seq 1).
    `cancel_after` is for how many seconds the run goes on while nobody watches it, None where it always does.
    `conversation` accepts `turn` in the transaction that writes the run. `request` is JSON: what another process needs
    besides to execute the run (see `runs/rebuild.py`). The run is accepted with all of `answers` to interrupts, by
    `decider`, or not at all; what the runs of the keys in `gives_up` asked is cancelled.
    Those of the keys in `stops` are asked to stop in the same transaction, so that they do wherever they execute.
    `user` is who has posted.
    """

    owner: Owner | None
    scope: str
    run_id: str
    thread_id: str
    server: str
    input: bytes
    digest: str
    protocol: str
    message_ids: Sequence[str]
    first_frame: FrameMaker
    cancel_after: float | None = None
    parent: "StoredRun | None" = None
    conversation: "ConversationStore | None" = None
    turn: "TurnStart | None" = None
    request: dict[str, Any] | None = None
    idempotency: Idempotency | None = None
    answers: Sequence[Answer] = ()
    decider: str = ""
    gives_up: Sequence[int] = ()
    stops: Sequence[int] = ()
    user: Any = None

    def accept_turn(self, run: int) -> int | None:
        """Write the turn for the run of this key and return the thread's revision, None outside of threads."""
        if self.conversation is None or self.turn is None:
            return None
        return self.conversation.accept(self.turn, run=run, run_id=self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as it was when it was read.

    `key` names the run inside its store and is never shown to a client. `last_seq` is the last committed frame.
    `content_digest` is that of its `Idempotency`. `error` is `{"code", "message"}` and safe to show; `interrupts` are
    the open ones, as AG-UI JSON, and `pending_calls` the ids of the frontend tool calls that it has ended with.
    """

    key: int
    owner: Owner | None
    scope: str
    run_id: str
    thread_id: str
    server: str
    status: RunStatus
    digest: str
    started_at: datetime
    content_digest: str = ""
    finished_at: datetime | None = None
    parent_run_id: str | None = None
    epoch: int = 1
    attempt: int = 1
    last_seq: int = 1
    error: dict[str, str] | None = None
    interrupts: list[dict[str, Any]] = field(default_factory=list)
    preview: str | None = None
    continuable: bool = False
    unresolved_effects: int = 0
    parent_unresolved_effects: int = 0
    pending_calls: list[str] = field(default_factory=list)
    cancel_after: float | None = None

    @property
    def pending_interrupts(self) -> int:
        return len(self.interrupts)

    @property
    def ledger_ids(self) -> list[str]:
        """The ids by which the agent and the ledger know the attempts at the run, the latest first."""
        return [attempt_id(self.run_id, number) for number in range(self.attempt, 0, -1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """What `runs/` asks for. `limit` 0 means all; `cursor` is what an earlier page gave as `next`."""

    thread_id: str | None = None
    status: str | None = None
    text: str | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest first, and the cursor of the next page, None on the last."""

    runs: Sequence[StoredRun]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class UnresolvedCall:
    """A tool call of which nobody knows whether it has acted; `reason` says why."""

    tool_call_id: str
    tool: str
    reason: str


class RunHistory(Protocol):
    """The model's messages of one live run, kept at every boundary; only what is new is written."""

    def begin(self, run: int | None, at: Literal["start", "end"] = "end") -> "list[ModelMessage]":
        """Return what an earlier run began with or ended with, and go on from there; nothing where `run` is None."""
        ...

    def resume(self) -> "list[ModelMessage]":
        """Return the newest boundary that earlier attempts at this run have reached, and write behind all of theirs."""
        ...

    def save(self, messages: "list[ModelMessage]", *, seq: int) -> LedgerChange | None:
        """Return the change that makes `messages`, as of seq `seq`, the newest boundary; None where that fails."""
        ...


class RunStore(Protocol):
    """Where runs and their event logs are kept. Synchronous, thread-safe; every call closes over no connection."""

    durable: bool

    @property
    def leases(self) -> "RunLeases | None":
        """The leases of the store's runs, None where no other process can see them."""
        ...

    def create(self, new: NewRun, *, on_commit: Callable[[StoredRun, bytes], None]) -> StoredRun:
        """Write a run and its first frame in one transaction and call `on_commit` with both once they are safe.

        Raises `RunIdTaken` where the owner already has a run of this id in this scope, `IdempotencyKeyTaken` where it
        has one of this key in this scope and server, `RunNotFound` where the run that it continues is gone,
        `InterruptDecided` where one of its answers comes too late, and `WriteTooLarge` for what the store cannot hold.
        """
        ...

    def get(self, *, owner: Owner | None, scope: str, run_id: str) -> StoredRun | None: ...

    def by_key(self, key: int, *, owner: Owner | None) -> StoredRun | None: ...

    def by_keys(self, keys: Collection[int], *, owner: Owner | None) -> Mapping[int, StoredRun]:
        """Return those of these runs that the owner has."""
        ...

    def by_idempotency_key(self, key: str, *, owner: Owner | None, scope: str, server: str) -> StoredRun | None: ...

    def page(self, *, owner: Owner | None, scope: str, query: RunQuery) -> RunPage: ...

    def input(self, key: int) -> bytes:
        """Return the accepted input that the run was created with; raises `RunNotFound`."""
        ...

    def request(self, key: int) -> dict[str, Any] | None:
        """Return what `NewRun.request` was; raises `RunNotFound`."""
        ...

    def folded(self, key: int) -> KeptFold:
        """Return what is kept of the run beside its log; raises `RunNotFound`."""
        ...

    def keep_fold(self, key: int, frames: Sequence[bytes]) -> None:
        """Keep frames of an ended run's preamble in place of those that are kept."""
        ...

    def history(self, key: int) -> RunHistory:
        """Return the history of a run that begins to execute."""
        ...

    def boundary_seq(self, key: int) -> int:
        """Return the seq of the run's newest boundary, 0 where it has reached none."""
        ...

    def ahead(self, key: int) -> StoredRun | None:
        """Return the last run before this one in the same thread that is live, or whose interrupts are undecided."""
        ...

    def asked_by(
        self, interrupt_id: str, *, owner: Owner | None, scope: str, server: str, thread_id: str
    ) -> StoredRun | None:
        """Return the run of a thread that ended with this interrupt at this mount."""
        ...

    def interrupts(self, key: int) -> Sequence[StoredInterrupt]:
        """Return what a run ended with, decided or not, in the order in which it asked."""
        ...

    def answers(self, key: int) -> Sequence[StoredInterrupt]:
        """Return the interrupts that a run was accepted with the answers to."""
        ...

    def undecided(self, *, owner: Owner | None, scope: str, server: str, thread_id: str) -> Sequence[int]:
        """Return the keys of the runs of a thread at this mount that have undecided interrupts."""
        ...

    def give_up(self, key: int, decision: Decision, *, conversation: "ConversationStore | None") -> Sequence[str]:
        """Decide what is undecided of a run, and end the wait of its thread, where `conversation` has one.

        Returns the ids of the interrupts that were undecided.
        """
        ...

    def lineage_message_ids(self, key: int) -> set[str]:
        """Return the ids of all messages of the run and of the runs it continues."""
        ...

    def read_frames(self, key: int, *, after: int, max_bytes: int) -> list[bytes]:
        """Return committed frames from seq `after + 1` on: one, if there is one, and more up to `max_bytes`.

        Raises `LogPruned` where there was one that is not kept any more.
        """
        ...

    def first_seq(self, key: int) -> int:
        """Return the seq from which on the run's log is kept; one more than the last where nothing is."""
        ...

    def progress(self, keys: Collection[int]) -> dict[int, tuple[int, RunStatus]]:
        """Return the last seq and the status of each run that still exists."""
        ...

    def commit(self, writes: Sequence[RunWrite]) -> list[Exception | None]:
        """Write all of `writes` in one transaction, or each in one of its own where that fails.

        Returns, for each write, None or why it was refused for good: `LeaseLost` or `UnstorableWrite`. Raises
        `StoreUnavailable` where nothing could be written and a later try may succeed; a repeated call is harmless.
        """
        ...

    def unresolved_calls(self, key: int) -> Sequence[UnresolvedCall]:
        """Return the tool calls without an outcome in the ledger of an ended run and of the delegates inside it."""
        ...

    def tidy(self, key: int) -> None:
        """Bring an ended run's log into its resting form."""
        ...
