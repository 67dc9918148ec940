"""A thread as its store keeps it, without content: who wrote what, and what has replaced it.

Nothing of a thread is ever removed. A turn begins where a run is accepted and goes on with the runs that continue it;
what a later run replaces is marked with it, messages and runs alike, and what is not marked is the current branch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_pydantic_agent.runs.states import LIVE
from django_pydantic_agent.threads.posture import (
    KnownMessage,
    ThreadOutline,
    Turn,
    TurnState,
    message_digest,
    turn_state,
)

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

IMPORTED = 0
"""The number of the turn that holds what was there before the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMessage:
    """A message of a thread; `run` is the key of the run that accepted or wrote it, `digest` that of a user message."""

    id: str
    role: str
    turn: int
    run: int
    digest: str = ""
    is_superseded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRun:
    """A run of a thread; runs of a turn follow each other by their keys."""

    key: int
    turn: int
    status: str
    is_superseded: bool = False

    @property
    def is_live(self) -> bool:
        return self.status in LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a run builds on, see `TurnGround`: `kept` and `question` say which messages, by their places in the list."""

    previous: int | None = None
    previous_first: int | None = None
    first_of_turn: int | None = None
    kept: Sequence[int] | None = None
    question: Sequence[int] = ()


class Branch:
    """The messages of a thread in order, replaced ones included, and its runs by turn and key."""

    def __init__(self, messages: Sequence[BranchMessage], runs: Iterable[BranchRun]) -> None:
        self.messages = messages
        self._runs: dict[int, list[BranchRun]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: (run.turn, run.key)):
            self._runs[run.turn].append(run)

    def view(
        self, *, revision: int, waiting: int | None, calls: Iterable[str], interrupts: Iterable[Any]
    ) -> ThreadOutline:
        """Return the thread as `reconcile` sees it; `waiting` is the run whose `calls` and `interrupts` are open."""
        current = [message for message in self.messages if not message.is_superseded]
        former: dict[str, set[str]] = defaultdict(set)
        for message in self.messages:
            if message.is_superseded:
                former[message.id].add(message.digest)
        numbers = list(dict.fromkeys(message.turn for message in current if message.turn != IMPORTED))
        places: dict[int, int | None] = {number: place for place, number in enumerate(numbers)}
        ids = {message.id for message in current}
        return ThreadOutline(
            revision=revision,
            messages=[
                KnownMessage(
                    id=message.id,
                    role=message.role,
                    turn=places.get(message.turn),
                    digest=message.digest,
                    former=frozenset(former.get(message.id, set()) - {"", message.digest}),
                )
                for message in current
            ],
            turns=[self._turn(number, waiting) for number in numbers],
            superseded=frozenset(former.keys() - ids),
            active=next((run.key for run in self._all_runs() if run.is_live), None),
            open_calls=frozenset(calls) if waiting is not None else frozenset(),
            open_interrupts=frozenset(item["id"] for item in interrupts) if waiting is not None else frozenset(),
        )

    def ground(self, key: int, turn: int) -> Ground:
        """Return what the run of this key, which is of `turn`, builds on."""
        own = [place for place, message in self._current() if message.turn == turn]
        before = [place for place, message in self._current() if message.turn < turn]
        question = [place for place in own if self.messages[place].role == "user"]
        first = self._runs[turn][0].key
        first_of_turn = None if first == key else first
        number = self.messages[before[-1]].turn if before else IMPORTED
        runs = self._runs.get(number)
        latest = next((run for run in reversed(runs or ()) if not run.is_superseded), None)
        if not runs:
            if first_of_turn is None and not own:
                # A question that was imported is answered anew.
                while before and self.messages[before[-1]].role == "user":
                    question.insert(0, before.pop())
            return Ground(first_of_turn=first_of_turn, kept=before or None, question=question)
        rest = [place for place in before if self.messages[place].turn == number]
        # What a run wrote that was replaced in part comes behind the end of the run before it.
        is_cut = latest is None or any(self.messages[place].run > latest.key for place in rest)
        return Ground(
            previous=(latest or runs[-1]).key,
            previous_first=runs[0].key,
            first_of_turn=first_of_turn,
            kept=rest if is_cut else None,
            question=question,
        )

    def _turn(self, number: int, waiting: int | None) -> Turn:
        runs = self._runs.get(number)
        if not runs:
            written = max(message.run for message in self.messages if message.turn == number)
            return Turn(run=written, state=TurnState.ANSWERED)
        run = next((run for run in reversed(runs) if not run.is_superseded), runs[-1])
        state = turn_state(run.status, waits=run.key == waiting)
        return Turn(run=run.key, state=TurnState.CUT if run.is_superseded and run.is_live else state)

    def _current(self) -> Iterator[tuple[int, BranchMessage]]:
        return ((place, message) for place, message in enumerate(self.messages) if not message.is_superseded)

    def _all_runs(self) -> Iterator[BranchRun]:
        return (run for turn in sorted(self._runs) for run in self._runs[turn])


def content_digest(message: "JsonObject") -> str:
    """Return the digest of a user message's content; other messages have none."""
    if message["role"] != "user":
        return ""
    from ag_ui.core import UserMessage

    return message_digest(UserMessage.model_validate(message))
