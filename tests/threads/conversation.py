"""A thread kept in a list, to which decisions are applied as they are meant."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ag_ui.core import RunAgentInput, UserMessage

from django_pydantic_agent.threads.posture import KnownMessage, ThreadOutline, Turn, TurnState, message_digest
from django_pydantic_agent.threads.reconcile import (
    DEFAULT_POLICY,
    Attach,
    Decision,
    GoOn,
    Refuse,
    Regenerate,
    Start,
    ThreadPolicy,
    reconcile,
)


@dataclass
class Conversation:
    """Messages as the client shows them, and beside each the number of its turn.

    `accepted` are the ids of all user messages ever taken, in order; `replaced` are the messages that were superseded.
    """

    messages: list[tuple[Mapping[str, Any], int | None]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    revision: int = 0
    runs: int = 0
    open_calls: frozenset[str] = frozenset()
    accepted: list[str] = field(default_factory=list)
    replaced: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [message["id"] for message, _ in self.messages]

    @property
    def busy(self) -> bool:
        return any(turn.state is TurnState.LIVE for turn in self.turns)

    def view(self) -> ThreadOutline | None:
        if not self.revision:
            return None
        former: dict[str, set[str]] = defaultdict(set)
        for message in self.replaced:
            former[message["id"]].add(_digest(message))
        return ThreadOutline(
            revision=self.revision,
            messages=[
                KnownMessage(
                    id=message["id"],
                    role=message["role"],
                    turn=turn,
                    digest=_digest(message),
                    former=frozenset(former[message["id"]]),
                )
                for message, turn in self.messages
            ],
            turns=list(self.turns),
            superseded=frozenset(message["id"] for message in self.replaced) - set(self.ids),
            active=next((turn.run for turn in self.turns if turn.state is TurnState.LIVE), None),
            open_calls=self.open_calls,
        )

    def take(self, posted: RunAgentInput, policy: ThreadPolicy = DEFAULT_POLICY) -> Decision:
        """Reconcile a post and do what was decided."""
        decision = reconcile(posted, self.view(), policy=policy)
        match decision:
            case Start():
                self._start(decision)
            case Regenerate(supersede_from=place):
                self._replace(place)
                self.open_calls = frozenset()
                self._run_again(len(self.turns) - 1)
            case GoOn(run=run):
                self._run_again(next(number for number, turn in enumerate(self.turns) if turn.run == run))
            case Attach() | Refuse():
                return decision
        self.revision += 1
        return decision

    def end(self, state: TurnState, answer: Sequence[Mapping[str, Any]] = (), calls: Sequence[str] = ()) -> None:
        """End the run that is going, with the messages that it has added."""
        number = next(number for number, turn in enumerate(self.turns) if turn.state is TurnState.LIVE)
        end = max(place for place, (_, turn) in enumerate(self.messages) if turn == number) + 1
        self.messages[end:end] = [(message, number) for message in answer]
        self.turns[number] = replace(self.turns[number], state=TurnState.WAITING if calls else state)
        self.open_calls = frozenset(calls)
        self.revision += 1

    def _start(self, start: Start) -> None:
        if start.supersede_from is not None:
            self._replace(start.supersede_from)
        self.messages += [(_json(message), None) for message in start.history]
        waiting = [number for number, turn in enumerate(self.turns) if turn.state is TurnState.WAITING]
        self.messages += [(_json(result), waiting[-1]) for result in start.results]
        if start.messages:
            for number in waiting:
                self.turns[number] = replace(self.turns[number], state=TurnState.CUT)
            self.turns.append(Turn(run=0, state=TurnState.LIVE))
            self.messages += [(_json(message), len(self.turns) - 1) for message in start.messages]
            self.accepted += [message.id for message in start.messages]
        self.open_calls = frozenset()
        self._run_again(len(self.turns) - 1)

    def _run_again(self, number: int) -> None:
        self.runs += 1
        self.turns[number] = Turn(run=self.runs, state=TurnState.LIVE)

    def _replace(self, place: int) -> None:
        tail = self.messages[place:]
        del self.messages[place:]
        self.replaced += [message for message, _ in tail]
        kept = {number for _, number in self.messages}
        for number in {number for _, number in tail if number is not None}:
            if self.turns[number].state is TurnState.LIVE:
                self.turns[number] = replace(self.turns[number], state=TurnState.CUT)
        self.turns = [turn for number, turn in enumerate(self.turns) if number in kept]


def _json(message: Any) -> dict[str, Any]:
    fields: dict[str, Any] = message.model_dump(mode="json", by_alias=True, exclude_none=True)
    return fields


def _digest(message: Mapping[str, Any]) -> str:
    return _digest_of(json.dumps(message["content"])) if message["role"] == "user" else ""


@cache
def _digest_of(content: str) -> str:
    return message_digest(UserMessage(id="u", role="user", content=json.loads(content)))
