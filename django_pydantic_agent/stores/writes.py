"""What a run adds to its store in one commit, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.approvals import AskedCall
from django_pydantic_agent.stores.conversations import TurnSave

if TYPE_CHECKING:
    from django_pydantic_agent.stores.conversations import ConversationStore

FrameMaker = Callable[["int | None"], bytes]
"""Makes a frame that shows the revision its thread has got; None stands for a run outside of any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ends, and the maker of its terminal frame, which is written together with it.

    `interrupts` are AG-UI JSON, `asked_calls` the tool calls that they are about, by their ids; `pending_calls` are the
    ids of the frontend tool calls that wait for the client's results. `unresolved` is the reason to note for tool
    effects that have no outcome, empty where there is none to give. `folded` is kept as `RunStore.keep_fold` keeps it.
    """

    status: RunStatus
    frame: FrameMaker
    error: dict[str, str] | None = None
    interrupts: Sequence[dict[str, Any]] = ()
    asked_calls: Mapping[str, AskedCall] = field(default_factory=dict)
    pending_calls: Sequence[str] = ()
    message_ids: Sequence[str] = ()
    usage: dict[str, int] | None = None
    timing: dict[str, Any] | None = None
    unresolved: str = ""
    folded: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFold:
    """Frames of the preamble of an ended run, so far as they are kept beside its log, and the last seq of that.

    There are none while the run is live. In a thread, a run has ended with the frame of its state; the messages are the
    thread's. A log that was pruned has left all that is missing otherwise.
    """

    frames: Sequence[bytes]
    last_seq: int


class LedgerChange(Protocol):
    """A change of the store's own rows, applied inside the commit that carries it; `size` is in bytes."""

    @property
    def size(self) -> int: ...


@dataclass(slots=True, kw_only=True)
class RunWrite:
    """What one run adds in one commit: frames from `first_seq` on, ledger rows in order, and maybe its end.

    `begins` turns a queued run into a running one in the same statement that appends. `ledger` holds the store's own
    row changes (see `LedgerChange`); a store without a ledger never gets any. `turns` are saved by `conversation`, the
    last of them as the run's end where there is an `ending`. The commit sets `asks_nobody` where what the run asks is
    cancelled at once, because the run was replaced in its thread.
    """

    key: int
    epoch: int
    first_seq: int
    begins: bool = False
    frames: list[bytes] = field(default_factory=list)
    ledger: list[LedgerChange] = field(default_factory=list)
    ending: Ending | None = None
    conversation: "ConversationStore | None" = None
    turns: list[TurnSave] = field(default_factory=list)
    terminal: bytes | None = None
    asks_nobody: bool = False

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.frames) - 1 + (self.ending is not None)

    def save_turns(self) -> None:
        """Save the turns and make the terminal frame; called inside the commit, once more where it is tried again."""
        revision = None
        if self.conversation is not None:
            for saved in self.turns if self.ending is None else self.turns[:-1]:
                self.conversation.save(saved)
            if self.ending is not None:
                # A run ends in its thread too where what it wrote there could not be stored.
                last = self.turns[-1] if self.turns else TurnSave(run=self.key, through_seq=self.last_seq, size=0)
                revision = self.conversation.end(last, self.ending)
        if self.ending is not None:
            self.terminal = self.ending.frame(revision)

    @property
    def all_frames(self) -> list[bytes]:
        """The frames with the terminal one, once it is made."""
        return self.frames if self.terminal is None else [*self.frames, self.terminal]
