"""What a post does to the thread that it names, planned from the two."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django_ag_ui.api.answers import Answered, refusal
from django_ag_ui.api.exceptions import OtherRevision, ThreadBusy, WouldOverwrite
from django_pydantic_agent.exceptions import RunNotFound, ThreadNotFound
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.plan import ThreadPlan
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, TurnStart
from django_pydantic_agent.threads.posture import ThreadOutline, TurnState
from django_pydantic_agent.threads.reconcile import (
    Attach,
    GoOn,
    Refuse,
    Regenerate,
    Start,
    ThreadPolicy,
    reconcile,
)

if TYPE_CHECKING:
    from ag_ui.core import Message, RunAgentInput

NO_REVISION = -1

# No revision has more digits than a column of 64 bits holds.
_TAG = re.compile(r'(?:W/)?"?([0-9]{1,19})(?:\.[^"]*)?"?')


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTurn:
    """A run to be started in a thread, what it answers, and the keys of the runs that it stops once it is accepted."""

    run_input: "RunAgentInput"
    thread: ThreadPlan
    stops: Sequence[int] = ()
    answered: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPost:
    """A post of `owner` that names a thread of `conversation`; `if_match` is its If-Match header."""

    conversation: ConversationStore
    owner: Owner
    posted: "RunAgentInput"
    policy: ThreadPolicy
    if_match: str | None = None

    def view(self) -> ThreadOutline | None:
        """Return the thread as it is now, None where it does not exist."""
        return self.conversation.view(owner=self.owner, thread_id=self.posted.thread_id)

    def plan(self, thread: ThreadOutline | None, *, answered: Answered | None = None) -> PlannedTurn | Attach:
        """Return what is to be done on the thread as it was seen; raises the refusal that goes to the client.

        `answered` is what the post answers.
        """
        if answered is not None:
            check_asked(answered, thread)
        revision = None if self.if_match is None else asked_revision(self.if_match, _revision(thread))
        decision = reconcile(self.posted, thread, if_match=revision, policy=self.policy)
        match decision:
            case Attach():
                return decision
            case Refuse():
                raise refusal(decision)
            case Start():
                waiting = None if decision.messages else waiting_run(thread)
                planned = self._turn(
                    thread,
                    [*decision.results, *decision.messages],
                    imported=decision.history,
                    supersede_from=decision.supersede_from,
                    continues=waiting,
                )
                planned = _with(planned, goes_on=waiting)
            case GoOn(run=run):
                planned = _with(self._turn(thread, [], continues=run), goes_on=run)
            case Regenerate(supersede_from=place):
                planned = self._turn(thread, [], supersede_from=place, continues=_run_before(thread, place))
                planned = _with(planned, regenerates=True)
        planned = _with(planned, catches_up=decision.client.catch_up, knows_newest=decision.client.knows_newest)
        # An answer goes on with a turn that others wait for.
        return replace(planned, answered=answered) if answered else self._beside_others(planned, thread)

    def continuation(
        self, thread: ThreadOutline | None, source: StoredRun, *, store: RunStore, open_end: Callable[[], bool]
    ) -> PlannedTurn:
        """Return how the post goes on from `source`, in the thread of that run or in one that is yet to begin.

        Raises `WouldOverwrite` for any other thread, `RunNotFound` where that run is gone meanwhile.
        """
        from django_pydantic_agent.log.accept import accept_continuation

        check_revision(self.if_match, _revision(thread))
        known = store.lineage_message_ids(source.key)
        imported: Sequence[dict[str, Any]] = ()
        if thread is None:
            imported = self._so_far(source, store)
            known |= {message["id"] for message in imported}
        elif self.conversation.holds(owner=self.owner, thread_id=self.posted.thread_id, run=source.key):
            known |= {message.id for message in thread.messages} | thread.superseded
        elif store.by_key(source.key, owner=self.owner) is None:
            raise RunNotFound
        else:
            raise WouldOverwrite(run_id=source.run_id, thread_id=self.posted.thread_id)
        run_input = accept_continuation(self.posted, known_ids=known, open_end=open_end)
        start = TurnStart(
            owner=self.owner,
            thread_id=self.posted.thread_id,
            revision=_revision(thread),
            messages=_as_json(run_input.messages),
            imported=imported,
            follows=None if thread is None else source.key,
            continues=None if thread is None or run_input.messages else source.key,
        )
        plan = ThreadPlan(conversation=self.conversation, start=start, catches_up=True)
        return self._beside_others(PlannedTurn(run_input=run_input, thread=plan), thread)

    def _turn(
        self,
        thread: ThreadOutline | None,
        messages: "Sequence[Message]",
        *,
        imported: "Sequence[Message]" = (),
        supersede_from: int | None = None,
        continues: int | None = None,
    ) -> PlannedTurn:
        from django_pydantic_agent.log.accept import accept_turn

        run_input = accept_turn(self.posted, messages, imported=imported)
        start = TurnStart(
            owner=self.owner,
            thread_id=self.posted.thread_id,
            revision=_revision(thread),
            messages=_as_json(messages),
            imported=_as_json(imported),
            supersede_from=supersede_from,
            continues=continues,
        )
        return PlannedTurn(run_input=run_input, thread=ThreadPlan(conversation=self.conversation, start=start))

    def _beside_others(self, planned: PlannedTurn, thread: ThreadOutline | None) -> PlannedTurn:
        """Return the plan as the mount wants it where runs of the thread are going on."""
        if thread is None or thread.active is None:
            return planned
        live = [place for place, turn in enumerate(thread.turns) if turn.state is TurnState.LIVE]
        stops = list(dict.fromkeys([thread.active, *(thread.turns[place].run for place in live)]))
        match self.policy.on_concurrent_run:
            case "reject":
                raise ThreadBusy
            case "interrupt":
                return replace(planned, stops=stops)
            case "rollback":
                return replace(_replacing(planned, _begin_of(thread, live)), stops=stops)
        return planned

    def _so_far(self, source: StoredRun, store: RunStore) -> Sequence[dict[str, Any]]:
        """Return the messages of the conversation that ends with `source`."""
        try:
            return self.conversation.transcript(run=source.key)
        except ThreadNotFound:
            from django_pydantic_agent.threads.lineage import messages_of_lineage

            return messages_of_lineage(store, source)


def check_asked(answered: Answered, thread: ThreadOutline | None) -> None:
    """Raise the refusal of answers to what the thread does not wait for."""
    from django_pydantic_agent.policy.approvals import UNKNOWN_INTERRUPT

    if thread is None or not thread.open_interrupts.issuperset(answer.id for answer in answered.answers):
        raise refusal(UNKNOWN_INTERRUPT)


def asked_revision(if_match: str, current: int | None) -> int:
    """Return the revision that an If-Match header names: the current one where it is among them."""
    tags = [tag.strip() for tag in if_match.split(",")]
    named = {int(match[1]) for tag in tags if (match := _TAG.fullmatch(tag))}
    if current is not None and (current in named or "*" in tags):
        return current
    return NO_REVISION


def check_revision(if_match: str | None, current: int | None) -> None:
    """Raise `OtherRevision` where a request has an If-Match header that does not name the current revision."""
    if if_match is not None and asked_revision(if_match, current) != current:
        raise OtherRevision


def _revision(thread: ThreadOutline | None) -> int | None:
    return None if thread is None else thread.revision


def _with(planned: PlannedTurn, **changes: Any) -> PlannedTurn:
    return replace(planned, thread=replace(planned.thread, **changes))


def _replacing(planned: PlannedTurn, place: int | None) -> PlannedTurn:
    """Return the plan of a new turn that replaces what stands at `place` too; others go on from what they name."""
    start = planned.thread.start
    if place is None or start.continues is not None or start.follows is not None:
        return planned
    earlier = place if start.supersede_from is None else min(place, start.supersede_from)
    return _with(planned, start=replace(start, supersede_from=earlier))


def _begin_of(thread: ThreadOutline, turns: Sequence[int]) -> int | None:
    """Return the place of the first message of any of `turns`."""
    return next((place for place, message in enumerate(thread.messages) if message.turn in turns), None)


def _run_before(thread: ThreadOutline | None, place: int) -> int | None:
    """Return the run of the turn that the message before `place` belongs to, None where no run made it."""
    turn = None if thread is None else thread.messages[place - 1].turn
    return None if thread is None or turn is None else thread.turns[turn].run


def waiting_run(thread: ThreadOutline | None) -> int | None:
    """Return the run that waits for answers."""
    turns = () if thread is None else thread.turns
    return next((turn.run for turn in reversed(turns) if turn.state is TurnState.WAITING), None)


def _as_json(messages: "Sequence[Message]") -> list[dict[str, Any]]:
    from django_pydantic_agent.log.frames import wire_form

    return [wire_form(message) for message in messages]
