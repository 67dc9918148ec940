"""What a mount asks of a place where conversations are kept."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from django_pydantic_agent.ownership import Owner

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject
    from django_pydantic_agent.stores.writes import Ending
    from django_pydantic_agent.threads.posture import ThreadOutline


ThreadName = tuple[Owner, str]
"""An owner, and the id of one of its threads."""


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """A run of a thread by its key; `replaces` says that it has replaced messages that stood there before it."""

    key: int
    replaces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """The run that a thread is busy with; `applied_seq` is the last seq that its stored messages and state hold.

    `key` names the run inside its store and is never shown to a client. `state_seq` is the last seq in the stored
    state, 0 where the run has not written that. `behind` counts the messages of the current branch that stand behind
    the run's own: they belong to turns that are queued.
    """

    key: int
    run_id: str
    applied_seq: int
    state_seq: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedMessages:
    """What one run replaced, in order; `replaced_by` is its id, None where it is gone."""

    replaced_by: str | None
    messages: Sequence["JsonObject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredThread:
    """A thread as it was at one moment.

    `messages` are those of the current branch as AG-UI JSON, in order; `superseded` what was replaced, the newest
    replacement first, where that was asked for. `interrupts` are the open ones.
    """

    thread_id: str
    title: str
    revision: int
    messages: Sequence["JsonObject"]
    state: Any
    archived: bool
    active_run: ActiveRun | None = None
    interrupts: Sequence["JsonObject"] = ()
    superseded: Sequence[ReplacedMessages] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread as a list shows it.

    `turns` counts those of the current branch, `active_run` is a run id. `current_run` is the key of the run that
    `ConversationStore.current_run` names, `branch_of` that of the run of another thread which this one continues; None
    where it is gone or not known.
    """

    thread_id: str
    title: str
    updated_at: datetime
    preview: str | None
    revision: int
    turns: int
    archived: bool
    active_run: str | None
    current_run: int | None = None
    branch_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadQuery:
    """What a list of threads asks for. `limit` 0 means all; `cursor` is what an earlier page gave as `next`.

    `status` is that of the current run.
    """

    text: str | None = None
    status: str | None = None
    archived: bool = False
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Threads, the one changed last first, and the cursor of the next page, None on the last."""

    threads: Sequence[ThreadRow]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """What a run that is accepted does to its thread.

    `revision` is the one that the decision was made on, None where there was no thread. The messages of the current
    branch from the place `supersede_from` on are replaced; with `follows`, the key of a run of the thread, those that
    do not belong to that run's branch or stand behind its end. `imported` goes in before all else, `messages` behind
    it. `continues` is the key of an earlier run whose turn this run continues; without it a new turn begins.
    """

    owner: Owner
    thread_id: str
    revision: int | None
    messages: Sequence["JsonObject"] = ()
    imported: Sequence["JsonObject"] = ()
    supersede_from: int | None = None
    follows: int | None = None
    continues: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSave:
    """What became of a run's part of its thread since it was saved last.

    `messages` are the new, changed and moved ones with their places among the run's messages, where the accepted ones
    come first. `state` counts only with `has_state`. `size` is in bytes.
    """

    run: int
    through_seq: int
    size: int
    messages: Sequence[tuple[int, "JsonObject"]] = ()
    state: Any = None
    has_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnGround:
    """What a run builds on, read when it starts.

    `previous` is the key of the latest run of the turn before it in the current branch, None where there is none, and
    `previous_first` that of that turn's first run. `kept` are messages that go on from the start of `previous_first`,
    because a cut has kept only a part of that turn, or from nothing, because they were imported or because no run of
    theirs is left. `first_of_turn` is the key of the first run of the run's own turn, None where the run begins it.
    `question` are the user messages that the run answers, `state` is the state stored with the thread.
    """

    previous: int | None = None
    previous_first: int | None = None
    kept: Sequence["JsonObject"] | None = None
    first_of_turn: int | None = None
    question: Sequence["JsonObject"] = ()
    state: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSoFar:
    """The branch of a run up to the run's own messages, as it was at one moment.

    `messages` have the run's events up to `applied_seq` in them. `state` is that of the thread, with the run's events
    up to `state_seq`, 0 where the run has not written it.
    """

    messages: Sequence["JsonObject"]
    applied_seq: int
    state: Any
    state_seq: int


class ConversationStore(Protocol):
    """Where threads are kept. Synchronous, thread-safe; each method sees the rows of one owner only.

    Methods that name a thread raise `ThreadNotFound` where the owner has none of this id, no matter who else has. Those
    that take a `revision` change nothing and raise `ThreadChanged` where the thread is at another one.
    """

    def owner(self, request: Any) -> Owner | None:
        """Return the owner that a request (or `RunRequest`) acts for, None where nothing of it is kept."""
        ...

    def view(self, *, owner: Owner, thread_id: str) -> "ThreadOutline | None":
        """Return what `reconcile` compares a post with, without the messages' content; None for no thread."""
        ...

    def read(self, *, owner: Owner, thread_id: str, superseded: bool = False) -> StoredThread: ...

    def holds(self, *, owner: Owner, thread_id: str, run: int) -> bool:
        """Return whether the run of this key is part of the thread."""
        ...

    def current_run(self, *, owner: Owner, thread_id: str) -> int | None:
        """Return the key of the run that is going or first in the queue, else of the branch's newest one."""
        ...

    def next_run(self, *, owner: Owner, thread_id: str, after: int) -> ThreadRun | None:
        """Return the first run of the thread, in any branch, that was accepted behind the one of key `after`."""
        ...

    def progress(self, threads: Collection[ThreadName]) -> Mapping[ThreadName, int]:
        """Return the key of the newest run, 0 without any, of each of these threads that exists."""
        ...

    def page(self, *, owner: Owner, query: ThreadQuery) -> ThreadPage: ...

    def titles(self, *, owner: Owner, thread_ids: Collection[str]) -> Mapping[str, str]:
        """Return the titles of those threads that have one; for others their first user message, cut to one line."""
        ...

    def rename(self, *, owner: Owner, thread_id: str, title: str, revision: int | None = None) -> None:
        """Give a thread a person's title, which nothing overwrites. Raises `InvalidInput` where it is too long."""
        ...

    def entitle(self, *, owner: Owner, thread_id: str, title: str) -> None:
        """Give a thread a title, cut where it is too long, unless a person gave it one."""
        ...

    def archive(self, *, owner: Owner, thread_id: str, archived: bool, revision: int | None = None) -> None: ...

    def delete(self, *, owner: Owner, thread_id: str, revision: int | None = None) -> list[int]:
        """Delete a thread with its runs and all of theirs; return the keys of those that were live."""
        ...

    def accept(self, start: TurnStart, *, run: int, run_id: str) -> int:
        """Write an accepted turn inside the transaction that creates `run`; return the thread's new revision.

        What the thread waited for is given up; the post that answers it says so itself. Raises `ThreadChanged` where
        the thread is not at `start.revision` any more.
        """
        ...

    def ground(self, *, run: int) -> TurnGround: ...

    def transcript(self, *, run: int) -> Sequence["JsonObject"]:
        """Return the messages of the branch of `run` up to its own, also where a later run has replaced them."""
        ...

    def so_far(self, *, run: int) -> ThreadSoFar:
        """Return what `transcript` returns, and how far it has come; also while the run goes on."""
        ...

    def save(self, saved: TurnSave) -> None:
        """Write what became of a run's messages, inside the commit that carries its frames."""
        ...

    def end(self, saved: TurnSave, ending: "Ending") -> int:
        """Write the last of a run's messages and what it waits for, and raise the revision; return it.

        Returns 0 where the thread was deleted meanwhile.
        """
        ...

    def end_wait(self, *, run: int) -> None:
        """Have the thread of a run wait no more for what that run has ended with, if it does."""
        ...
