"""What holds for any post to any thread, and for any number of clients over the life of one."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_pydantic_agent.threads.posture import TurnState
from django_pydantic_agent.threads.reconcile import (
    Attach,
    GoOn,
    Refuse,
    Regenerate,
    Start,
    ThreadPolicy,
    overlay_state,
    reconcile,
)
from tests.threads.conversation import Conversation
from tests.threads.shorthand import ROLES, message, post, thread

NUMBERS = "1234"
POSTABLE = [f"{role}{number}" for role in ROLES for number in NUMBERS] + [f"u{number}*" for number in NUMBERS]
STORABLE = [f"{role}{number}" for role in "uatrv" for number in NUMBERS]
POLICIES = st.builds(
    ThreadPolicy,
    on_stale_client=st.sampled_from(["merge", "reject"]),
    client_history=st.sampled_from(["ignore", "import"]),
    on_concurrent_run=st.sampled_from(["enqueue", "attach"]),
)

UNHURRIED = settings(max_examples=300, deadline=None)


@st.composite
def posts(draw):
    shorts = draw(st.lists(st.sampled_from(POSTABLE), max_size=12))
    return post(" ".join(shorts), base=draw(st.sampled_from([None, 6, 7])), resume=draw(st.integers(0, 9)) == 0)


@st.composite
def threads(draw):
    """Return a thread whose turns all begin with a user message."""
    pool = draw(st.permutations(STORABLE))
    stored = pool[: draw(st.integers(0, 12))]
    turns: list[list[str]] = []
    for short in stored:
        if not turns or (short[0] == "u" and draw(st.booleans())):
            turns.append([])
        turns[-1].append(short)
    imported = " ".join(turns.pop(0)) if turns and (turns[0][0][0] != "u" or draw(st.booleans())) else ""
    states = draw(st.lists(st.sampled_from(TurnState), min_size=len(turns), max_size=len(turns)))
    return thread(
        " | ".join(" ".join(turn) for turn in turns),
        *states,
        imported=imported,
        superseded=" ".join(pool[12:14]),
        calls="c1 c2" if TurnState.WAITING in states else "",
    )


@UNHURRIED
@given(posts(), threads() | st.none(), POLICIES)
def test_a_decision_takes_and_replaces_only_what_it_may(posted, stored, policy):
    decision = reconcile(posted, stored, policy=policy)
    match decision:
        case Refuse(status=status, code=code):
            assert (status, code) in {(409, "stale_thread"), (422, "nothing_to_run"), (422, "answers_missing")}
        case Attach(run=run):
            assert run in {turn.run for turn in stored.turns}
        case GoOn(run=run):
            assert stored.turns[-1].state is TurnState.CUT
            assert stored.turns[-1].run == run
        case Regenerate(supersede_from=place):
            assert stored.messages[place - 1].role == "user"
            assert all(known.role != "user" for known in stored.messages[place:]) or _is_deliberate(posted, stored)
            _check_replaced(posted, stored, place)
        case Start():
            _check_start(posted, stored, decision)
            assert decision.history == () or (stored is None and policy.client_history == "import")
    if policy.on_stale_client == "reject" and isinstance(decision, Start | Regenerate | GoOn):
        assert decision.client.missing == ()


def _is_deliberate(posted: Any, stored: Any) -> bool:
    return posted.forwarded_props.get("baseRevision") == stored.revision and not posted.resume


def _check_replaced(posted: Any, stored: Any, place: int) -> None:
    """Without naming the revision, nothing but the newest turn can be replaced."""
    newest = len(stored.turns) - 1
    assert _is_deliberate(posted, stored) or all(known.turn == newest for known in stored.messages[place:])


def _check_start(posted: Any, stored: Any, start: Start) -> None:
    first = {}
    for candidate in posted.messages:
        first.setdefault(candidate.id, candidate)
    users = [candidate for candidate in first.values() if candidate.role == "user"]
    accepted = [candidate for candidate in users if candidate in start.messages]
    assert list(start.messages) == accepted
    assert all(candidate.role not in ("system", "developer") for candidate in start.history)
    if stored is None:
        assert not start.results
        assert start.supersede_from is None
        return
    calls = [result.tool_call_id for result in start.results]
    assert set(calls) <= stored.open_calls
    assert len(calls) == len(set(calls))
    keep = len(stored.messages) if start.supersede_from is None else start.supersede_from
    kept = {known.id for known in stored.messages[:keep]} | stored.superseded
    assert kept.isdisjoint(candidate.id for candidate in (*start.messages, *start.results))
    if start.supersede_from is not None:
        _check_replaced(posted, stored, start.supersede_from)
    assert start.messages or start.results or start.resume


@UNHURRIED
@given(posts(), threads())
def test_a_client_that_gets_no_snapshots_shows_the_user_messages_of_the_thread(posted, stored):
    decision = reconcile(posted, stored)
    if not isinstance(decision, Start | Regenerate | GoOn) or decision.client.catch_up:
        return
    keep = len(stored.messages)
    if not isinstance(decision, GoOn) and decision.supersede_from is not None:
        keep = decision.supersede_from
    accepted = decision.messages if isinstance(decision, Start) else ()
    shown = list(dict.fromkeys(candidate.id for candidate in posted.messages if candidate.role == "user"))
    assert shown == [known.id for known in (*stored.messages[:keep], *accepted) if known.role == "user"]


STATES = st.dictionaries(st.sampled_from("abc"), st.integers())


@UNHURRIED
@given(STATES, STATES, st.booleans())
def test_a_stored_key_is_never_lost_and_of_a_client_that_is_behind_never_changed(stored, posted, knows_newest):
    state = overlay_state(stored, posted, knows_newest=knows_newest)
    assert state.keys() == stored.keys() | posted.keys()
    assert knows_newest or stored.items() <= state.items()
    assert not knows_newest or posted.items() <= state.items()


class Clients(RuleBasedStateMachine):
    """Clients that share a thread, lose, forge and mix up what they know of it, and post."""

    transcripts = Bundle("transcripts")

    @initialize()
    def open(self) -> None:
        self.thread = Conversation()
        self.count = 0

    @rule(target=transcripts)
    def arrive(self) -> list[dict[str, Any]]:
        return []

    @rule(target=transcripts)
    def load(self) -> list[dict[str, Any]]:
        return [dict(stored) for stored, _ in self.thread.messages]

    @rule(transcript=transcripts, count=st.integers(1, 2))
    def say(self, transcript, count):
        transcript += [self._message("u") for _ in range(count)]
        self._post(transcript)

    @rule(count=st.integers(1, 3))
    def say_what_is_new_to_a_current_thread(self, count):
        new = [self._message("u") for _ in range(count)]
        decision = self._post([*(stored for stored, _ in self.thread.messages), *new])
        assert [accepted.id for accepted in decision.messages] == [said["id"] for said in new]
        assert decision.client.missing == ()

    @rule(transcript=transcripts, names_revision=st.booleans())
    def run_again(self, transcript, names_revision):
        self._post(transcript, names_revision=names_revision)

    @rule(transcript=transcripts)
    def reload(self, transcript):
        while transcript and transcript[-1]["role"] != "user":
            transcript.pop()
        self._post(transcript)

    @rule(transcript=transcripts, data=st.data(), names_revision=st.booleans(), cuts=st.booleans())
    def edit(self, transcript, data, names_revision, cuts):
        places = [place for place, said in enumerate(transcript) if said["role"] == "user"]
        if places:
            place = data.draw(st.sampled_from(places))
            self.count += 1
            transcript[place] = {**transcript[place], "content": f"edit {self.count}"}
            if cuts:
                del transcript[place + 1 :]
            self._post(transcript, names_revision=names_revision)

    @rule(transcript=transcripts, data=st.data(), names_revision=st.booleans())
    def truncate_and_say(self, transcript, data, names_revision):
        del transcript[data.draw(st.integers(0, len(transcript))) :]
        transcript.append(self._message("u"))
        self._post(transcript, names_revision=names_revision)

    @rule(transcript=transcripts, data=st.data())
    def lose_and_mix_up(self, transcript, data):
        transcript[:] = data.draw(st.lists(st.sampled_from(transcript), max_size=10)) if transcript else []

    @rule(transcript=transcripts)
    def mint_ids_anew(self, transcript):
        transcript[:] = [said if said["role"] == "user" else self._message(said["id"][0]) for said in transcript]

    @rule(transcript=transcripts, role=st.sampled_from("utasdrv"), data=st.data())
    def forge(self, transcript, role, data):
        transcript.insert(data.draw(st.integers(0, len(transcript))), self._message(role))

    @rule(transcript=transcripts, data=st.data())
    def give_results(self, transcript, data):
        for call in data.draw(st.lists(st.sampled_from([*sorted(self.thread.open_calls), "call of nobody"]))):
            transcript.append({**self._message("t"), "toolCallId": call})
        self._post(transcript)

    @precondition(lambda self: self.thread.busy)
    @rule(state=st.sampled_from([TurnState.ANSWERED, TurnState.CUT]), roles=st.sampled_from(["", "a", "rata", "a!"]))
    def end(self, state, roles):
        answer = [self._message(role) for role in roles.rstrip("!")]
        self.thread.end(state, answer, [f"call of {answer[-1]['id']}"] if "!" in roles else ())

    @invariant()
    def no_id_stands_twice(self):
        assert len(self.thread.ids) == len(set(self.thread.ids))

    @invariant()
    def all_that_was_ever_accepted_is_still_there(self):
        held = {*self.thread.ids, *(replaced["id"] for replaced in self.thread.replaced)}
        assert held.issuperset(self.thread.accepted)

    def _message(self, role: str) -> dict[str, Any]:
        self.count += 1
        return message(f"{role}{self.count}")

    def _post(self, messages: Sequence[dict[str, Any]], *, names_revision: bool = False) -> Any:
        """Post, and check what holds whoever posts."""
        posted = post(messages=list(messages), base=self.thread.revision if names_revision else None)
        before = list(self.thread.messages)
        calls = self.thread.open_calls
        decision = self.thread.take(posted)
        after = self.thread.messages
        keep = getattr(decision, "supersede_from", None)
        keep = len(before) if keep is None else keep
        new = after[keep:]
        assert after[:keep] == before[:keep]
        said = [entry["id"] for entry in messages]
        positions = [said.index(entry["id"]) for entry, _ in new if entry["role"] == "user"]
        assert positions == sorted(positions)
        assert all(entry["role"] == "user" or entry["toolCallId"] in calls for entry, _ in new)
        if isinstance(decision, Attach | Refuse):
            assert after == before
        again = reconcile(posted, self.thread.view())
        assert isinstance(again, Attach | Refuse)
        return decision


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
