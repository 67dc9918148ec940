"""How what a client posted lies to the thread it names: what it knows, adds, changes and lacks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django_pydantic_agent.runs.states import RunStatus

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput, ToolMessage, UserMessage


class TurnState(Enum):
    """How far a turn has come. The state of its latest run says so, together with what that run still waits for."""

    LIVE = "live"  # queued or running
    WAITING = "waiting"  # ended, waits for decisions or for results of frontend tools
    CUT = "cut"  # failed, cancelled, orphaned, or interrupted and then given up
    ANSWERED = "answered"


_STATES: dict[str, TurnState] = {
    RunStatus.QUEUED: TurnState.LIVE,
    RunStatus.RUNNING: TurnState.LIVE,
    RunStatus.FINISHED: TurnState.ANSWERED,
}


def turn_state(status: str, *, waits: bool) -> TurnState:
    """Return the state of a turn by the status of its latest run, and by whether that run still waits for answers."""
    state = _STATES.get(status, TurnState.CUT)
    return TurnState.WAITING if waits and state is not TurnState.LIVE else state


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMessage:
    """A stored message.

    `turn` is the place of its turn in `ThreadOutline.turns`, None where no run made or accepted it. `digest` is the
    `message_digest` of a user message, `former` are those of its versions that edits have replaced.
    """

    id: str
    role: str
    turn: int | None
    digest: str = ""
    former: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a user said at once, and what came of it. `run` is the key of its latest run."""

    run: int
    state: TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOutline:
    """A stored thread: its current branch in order, and what it waits for.

    `turns` are those that the branch holds a message of, in the same order; a new turn joins at its acceptance, queued
    or not. `superseded` are the ids that only replaced branches hold, `active` is the key of the run that is going or,
    where none is, of the first in the queue. `open_calls` are the ids of the tool calls that wait for the client's
    results, `open_interrupts` those of the interrupts that wait for decisions.
    """

    revision: int
    messages: Sequence[KnownMessage]
    turns: Sequence[Turn]
    superseded: frozenset[str] = frozenset()
    active: int | None = None
    open_calls: frozenset[str] = frozenset()
    open_interrupts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a client stands.

    `missing` are the ids, in order, of the stored messages that it has not seen. `knows_newest` is false where the
    newest is one of them. `catch_up` says that its list is not the thread's, so that snapshots must correct it.
    """

    missing: tuple[str, ...] = ()
    knows_newest: bool = True
    catch_up: bool = False


class Posture:
    """A post laid beside its thread.

    An answer is what stands between one user message and the next. A client has heard one where it holds its newest
    assistant message, which is all that some clients keep, or in its place an assistant message under an id of the
    client's own; and while it is still being written.
    """

    def __init__(self, posted: "RunAgentInput", thread: ThreadOutline) -> None:
        self.thread = thread
        self.resumes = bool(posted.resume)
        self.names_revision = _base_revision(posted.forwarded_props) == thread.revision
        self.messages = without_copies(posted.messages)
        self.users = [message for message in self.messages if message.role == "user"]
        self._ids = {message.id for message in self.messages}
        self._places = {message.id: place for place, message in enumerate(thread.messages)}
        self._questions = _questions(thread.messages)
        self._unheard = self._find_unheard()
        self.added = self._find_added()
        self.results = self._find_results()
        self.changed, self.outdated = self._find_changed()

    def place_of(self, message: "UserMessage") -> int | None:
        """Return where the current branch holds a posted user message, if it does, and as one of the user."""
        place = self._places.get(message.id)
        return None if place is None or self.thread.messages[place].role != "user" else place

    def is_newest(self, place: int) -> bool:
        """Say whether the message at `place` belongs to the newest turn."""
        return self.is_of(len(self.thread.turns) - 1, place)

    def is_of(self, turn: int, place: int) -> bool:
        """Say whether the message at `place` belongs to `turn`."""
        return self.thread.messages[place].turn == turn

    def turn_at(self, place: int) -> Turn | None:
        """Return the turn of the message at `place`."""
        turn = self.thread.messages[place].turn
        return None if turn is None else self.thread.turns[turn]

    def holds_questions_from(self, place: int) -> bool:
        """Say whether the post holds all user messages of the thread from `place` on."""
        return all(message.id in self._ids for message in self.thread.messages[place:] if message.role == "user")

    def after_question(self, end: int | None = None) -> int:
        """Return the place after the last user message before `end`, 0 where there is none."""
        return self._questions[:end][-1] + 1

    def missing(self, end: int | None = None) -> tuple[str, ...]:
        """Return the ids of the stored messages before `end` that the client has not seen."""
        return tuple(
            message.id
            for message, question in zip(self.thread.messages[:end], self._questions[:end], strict=True)
            if message.id not in self._ids and (message.role == "user" or question in self._unheard)
        )

    def standing(self, keep: int, *, since: int | None = None, accepted: Sequence["UserMessage"] = ()) -> Standing:
        """Return where the client stands towards the first `keep` messages and those accepted after them.

        Of the kept ones, it need not have seen those from `since` on.
        """
        kept = self.thread.messages[:keep]
        due = kept if since is None else kept[:since]
        missing = self.missing(len(due))
        taken = {message.id for message in accepted}
        differs = (
            self.missing(keep)
            or any(self._is_live(message) for message in kept)
            or self.outdated
            or any(self.thread.messages[place].id not in taken for place in self.changed)
            or outline(self.messages) != outline([*kept, *accepted])
        )
        return Standing(missing=missing, knows_newest=not due or due[-1].id not in set(missing), catch_up=bool(differs))

    @property
    def edits(self) -> list["UserMessage"]:
        """The posted user messages that replace the first edited one and all that follows it.

        They are what the client has changed and added, and what it said together with the first edited one.
        """
        first = self.changed[0]
        turn = self.thread.messages[first].turn
        said_together = {
            place for place in range(first, len(self._questions)) if turn is not None and self.is_of(turn, place)
        }
        places = said_together.union(self.changed)
        added = {message.id for message in self.added}
        return [message for message in self.users if message.id in added or self.place_of(message) in places]

    @property
    def prefix(self) -> int | None:
        """How many messages of the thread the post repeats from the first on, None where it leaves some out between."""
        places = [self._places[message.id] for message in self.messages if message.id in self._places]
        if not places or places != sorted(places) or self._ids & self.thread.superseded:
            return None
        end = places[-1] + 1
        if self.missing(end):
            return None
        question = self._questions[end - 1]
        while question not in self._unheard and end < len(self._questions) and self._questions[end] == question:
            end += 1
        return end

    @property
    def ends_in_unasked_result(self) -> bool:
        """Whether the post ends in a result of a tool that nothing waits for, and that the thread does not hold."""
        last = [message for message in self.messages if message.role in ("user", "assistant", "tool")][-1]
        return last.role == "tool" and not self._is_known(last.id)

    def _is_known(self, id_: str) -> bool:
        return id_ in self._places or id_ in self.thread.superseded

    def _is_live(self, message: KnownMessage) -> bool:
        return message.turn is not None and self.thread.turns[message.turn].state is TurnState.LIVE

    def _find_unheard(self) -> set[int]:
        """Return the places of the user messages whose answers the client has not heard."""
        newest: dict[int, KnownMessage] = {}
        for question, message in zip(self._questions, self.thread.messages, strict=True):
            if message.role == "assistant":
                newest[question] = message
        heard = self._find_retold()
        return {
            question
            for question, message in newest.items()
            if message.id not in self._ids and question not in heard and not self._is_live(message)
        }

    def _find_retold(self) -> set[int]:
        """Return the places of the user messages that the client answers with messages the thread does not know."""
        retold = set()
        question = None
        for message in self.messages:
            if message.role == "user":
                question = self.place_of(message)
            elif message.role == "assistant" and question is not None and not self._is_known(message.id):
                retold.add(question)
        return retold

    def _find_added(self) -> list["UserMessage"]:
        """Return the unknown user messages after the newest known message or, without one, after the last answer."""
        known = [
            (self._places.get(message.id, -1), position)
            for position, message in enumerate(self.messages)
            if self._is_known(message.id)
        ]
        begin = max(known)[1] + 1 if known else after_last(self.messages, "assistant", "tool")
        return [m for m in self.messages[begin:] if m.role == "user" and not self._is_known(m.id)]

    def _find_results(self) -> list["ToolMessage"]:
        results: dict[str, ToolMessage] = {}
        for message in self.messages:
            if message.role == "tool" and not self._is_known(message.id):
                results.setdefault(message.tool_call_id, message)
        return [result for call, result in results.items() if call in self.thread.open_calls]

    def _find_changed(self) -> tuple[list[int], list[int]]:
        """Return the places, in order, of the user messages that the client has edited, and of those it is behind with.

        What an edit has replaced is an edit again only for a client that knows the revision.
        """
        changed: list[int] = []
        outdated: list[int] = []
        for message in self.users:
            place = self.place_of(message)
            if place is None or (digest := message_digest(message)) == self.thread.messages[place].digest:
                continue
            is_behind = digest in self.thread.messages[place].former and not self.names_revision
            (outdated if is_behind else changed).append(place)
        return sorted(changed), sorted(outdated)


class _HasIdAndRole(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def role(self) -> str: ...


_M = TypeVar("_M", bound=_HasIdAndRole)


def outline(messages: Iterable[_HasIdAndRole]) -> list[tuple[str, bool]]:
    """Return the ids of the user messages, each with whether an assistant message answers it."""
    answered: dict[str, bool] = {}
    last = None
    for message in messages:
        if message.role == "user":
            last = message.id
            answered[last] = False
        elif message.role == "assistant" and last is not None:
            answered[last] = True
    return list(answered.items())


def without_copies(messages: Iterable[_M]) -> list[_M]:
    """Return the messages, of those that share an id only the first."""
    first: dict[str, _M] = {}
    for message in messages:
        first.setdefault(message.id, message)
    return list(first.values())


def after_last(messages: Sequence[_HasIdAndRole], *roles: str) -> int:
    """Return the place after the last message of one of `roles`, 0 where there is none."""
    return max((place + 1 for place, message in enumerate(messages) if message.role in roles), default=0)


def message_digest(message: "UserMessage") -> str:
    """Return the SHA-256, in hex, of what a user message says. It is edited where its digest has changed.

    What it says is its text and its media. Text is the same however it is split into parts; ids, names, metadata and
    media types do not count, because clients add and lose them on the way.
    """
    content = message.content
    parts = [("text", content)] if isinstance(content, str) else [_said(part) for part in content]
    pieces: list[Any] = []
    for is_text, group in groupby(parts, key=lambda part: part[0] == "text"):
        said = list(group)
        # NUL is stored as U+FFFD, and that is what the client posts from then on.
        pieces += ["".join(text for _, text in said).replace("\0", "\ufffd")] if is_text else said
    return sha256(json.dumps([piece for piece in pieces if piece]).encode()).hexdigest()


def _said(part: Any) -> tuple[str, ...]:
    return (part.type, part.text) if part.type == "text" else (part.type, part.source.type, part.source.value)


def _questions(messages: Iterable[KnownMessage]) -> list[int]:
    """Return for each message the place of the user message that it is or follows, -1 before the first."""
    places = []
    question = -1
    for place, message in enumerate(messages):
        question = place if message.role == "user" else question
        places.append(question)
    return places


def _base_revision(forwarded_props: Any) -> int | None:
    revision = forwarded_props.get("baseRevision") if isinstance(forwarded_props, dict) else None
    return revision if isinstance(revision, int) and not isinstance(revision, bool) else None
