"""What the engine asks of a place where runs are kept."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run as it is accepted, before anything of it has executed.

    `input` is the accepted `RunAgentInput` as JSON, `digest` tells apart what was posted (route, source run, raw body),
    `message_ids` are the ids of the accepted messages, `first_frame` is the encoded RUN_STARTED event (seq 1).
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
    first_frame: bytes
    parent: "StoredRun | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as it was when it was read.

    `key` names the run inside its store and is never shown to a client. `last_seq` is the last committed frame.
    `error` is `{"code", "message"}` and safe to show; `interrupts` are AG-UI interrupts as JSON objects.
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
    pending_interrupts: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ends; written together with its terminal frame."""

    status: RunStatus
    error: dict[str, str] | None = None
    interrupts: Sequence[dict[str, Any]] = ()
    message_ids: Sequence[str] = ()
    usage: dict[str, int] | None = None
    timing: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class RunWrite:
    """What one run adds in one commit: frames from `first_seq` on, ledger rows in order, and maybe its end.

    `begins` turns a queued run into a running one in the same statement that appends. `ledger` holds the store's own
    row changes (see `LedgerChange`); a store without a ledger never gets any.
    """

    key: int
    epoch: int
    first_seq: int
    begins: bool = False
    frames: list[bytes] = field(default_factory=list)
    ledger: list["LedgerChange"] = field(default_factory=list)
    ending: Ending | None = None

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.frames) - 1


class LedgerChange(Protocol):
    """One change of the harness ledger, applied inside the commit that carries it."""

    size: int


class RunStore(Protocol):
    """Where runs and their event logs are kept. Synchronous, thread-safe; every call closes over no connection."""

    durable: bool

    def create(self, new: NewRun, *, on_commit: Callable[[StoredRun], None]) -> StoredRun:
        """Write a run and its first frame in one transaction and call `on_commit` once they are safe.

        Raises `RunIdTaken` where the owner already has a run of this id in this scope.
        """
        ...

    def get(self, *, owner: Owner | None, scope: str, run_id: str) -> StoredRun | None: ...

    def page(self, *, owner: Owner | None, scope: str, query: RunQuery) -> RunPage: ...

    def input(self, key: int) -> bytes:
        """Return the accepted input that the run was created with."""
        ...

    def lineage_message_ids(self, key: int) -> set[str]:
        """Return the ids of all messages of the run and of the runs it continues."""
        ...

    def read_frames(self, key: int, *, after: int, max_bytes: int) -> list[bytes]:
        """Return committed frames from seq `after + 1` on: one, if there is one, and more up to `max_bytes`."""
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

    def tidy(self, key: int) -> None:
        """Bring an ended run's log into its resting form."""
        ...
