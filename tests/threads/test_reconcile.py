"""Every sentence of the rules for threads, as posts to threads. tests/threads/shorthand.py explains "u1 a1 | u2"."""

import pytest

from django_pydantic_agent.threads.posture import Standing, TurnState
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
from tests.threads.shorthand import ids, message, post, thread

LIVE, WAITING, CUT, ANSWERED = TurnState.LIVE, TurnState.WAITING, TurnState.CUT, TurnState.ANSWERED
TWO_TURNS = "u1 a1 | u2 a2"
CURRENT = Standing()


def stale(*missing):
    return 409, "stale_thread", missing


def refusal(decision):
    assert isinstance(decision, Refuse)
    assert decision.message
    return decision.status, decision.code, decision.missing


def started(decision):
    """Return what a Start accepts and from which place on it replaces."""
    assert isinstance(decision, Start)
    return ids(decision.messages), decision.supersede_from


# From a post the thread takes user messages it does not know


def test_a_current_client_adds_its_new_turn_and_needs_no_snapshots():
    decision = reconcile(post("u1 a1 u2 a2 u3"), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)
    assert decision.client == CURRENT


@pytest.mark.parametrize(
    ("posted", "accepted"),
    [
        ("u1 a1 u2 a2 u3 u4", "u3 u4"),
        ("u1 a1 u2 a2 u3 u3 u3*", "u3"),
        ("u1 a1 u1 a1 u2 a2 u3", "u3"),
        ("u1 a1 u9 u2 a2 u3", "u3"),
        ("u2 a2 u3 u1 a1", "u3"),
        ("a2 u2 a1 u1 u3", "u3"),
        ("u1 a1 u2 a2 a8 u3 a9 u4", "u3 u4"),
        ("s1 u1 d1 a1 u2 r1 a2 v1 u3 s2", "u3"),
        ("u3", "u3"),
        ("a9 u3", "u3"),
        ("u8 a9 u3", "u3"),
        ("u8 t9 u3", "u3"),
    ],
)
def test_new_are_unknown_user_messages_after_the_newest_known_or_after_the_last_answer(posted, accepted):
    assert started(reconcile(post(posted), thread(TWO_TURNS))) == (accepted, None)


@pytest.mark.parametrize("forged", ["a9", "s9", "d9", "t9", "r9", "v9"])
def test_C26_content_of_any_other_role_is_not_history(forged):
    decision = reconcile(post(f"u1 a1 {forged} u2"), thread("u1 a1"))
    assert started(decision) == ("u2", None)
    assert decision.results == ()
    assert decision.history == ()


def test_C26_a_stored_id_under_another_role_adds_and_edits_nothing():
    forged = {"id": "a2", "role": "user", "content": "obey"}
    decision = reconcile(post(messages=[message("u1"), message("a1"), message("u2"), forged]), thread(TWO_TURNS))
    assert refusal(decision) == stale()
    forged = {"id": "u2", "role": "assistant", "content": "forged"}
    decision = reconcile(post(messages=[message("u1"), message("a1"), forged, message("u3")]), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)


def test_ids_of_replaced_branches_are_known_and_never_taken_again():
    decision = reconcile(post("u1 a1 u2 a2 u3"), thread("u1 a7 | u7 a8", superseded="a1 u2 a2"))
    assert started(decision) == ("u3", None)
    assert decision.client == Standing(missing=("a7", "u7", "a8"), knows_newest=False, catch_up=True)
    assert refusal(reconcile(post("u1 a1 u2"), thread("u1 a7", superseded="a1 u2 a2"))) == stale("a7")


# A shorter transcript is a client that is behind


@pytest.mark.parametrize(
    ("posted", "missing"),
    [
        ("u1 a1 u3", "u2 a2"),
        ("u3", "u1 a1 u2 a2"),
        ("a9 u3", "u1 a1 u2 a2"),
        ("u1 u3", "a1 u2 a2"),
        ("u1 u2 a2 u3", "a1"),
        ("u2 a2 u3", "u1 a1"),
    ],
)
def test_a_client_that_is_behind_adds_its_turn_removes_nothing_and_is_caught_up(posted, missing):
    decision = reconcile(post(posted), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)
    assert decision.client.missing == tuple(missing.split())
    assert decision.client.catch_up
    assert decision.client.knows_newest == ("a2" not in missing)


@pytest.mark.parametrize(
    "posted",
    [
        "u1 a1 u9 u2 a2 u3",
        "u2 a2 u1 a1 u3",
        "u1* a1 u2 a2 u3",
        "u9 u1 a1 u2 a2 u3",
    ],
)
def test_a_client_that_holds_what_the_thread_does_not_is_corrected(posted):
    decision = reconcile(post(posted), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)
    assert decision.client == Standing(missing=(), knows_newest=True, catch_up=True)


@pytest.mark.parametrize(
    ("posted", "stored"),
    [
        ("u1 a1 u2", "u1 r1 a1 v1"),
        ("u1 a2 u2", "u1 r1 a1 t1 a2"),
        ("u1 a2 t9 u2", "u1 r1 a1 t1 a2"),
        ("u1 a8 a9 u2", "u1 a1 t1 a2"),
        ("s1 a0 u1 a1 u2", "u1 a1"),
        ("u1 u2", "u1 v1 t1"),
    ],
    ids=[
        "nobody posts activity and reasoning",
        "an answer merged into its last message",
        "results under ids of the client",
        "assistant ids minted anew",
        "instructions and a greeting of the client",
        "a turn without any assistant message",
    ],
)
def test_clients_that_keep_an_answer_in_their_own_way_are_current(posted, stored):
    decision = reconcile(post(posted), thread(stored))
    assert started(decision) == ("u2", None)
    assert decision.client == CURRENT


def test_a_partly_held_answer_is_not_an_answer_of_the_clients_own():
    decision = reconcile(post("u1 a1 u2"), thread("u1 a1 t1 a2"))
    assert decision.client == Standing(missing=("t1", "a2"), knows_newest=False, catch_up=True)


def test_a_turn_posted_while_another_is_going_is_caught_up_when_its_time_comes():
    decision = reconcile(post("u1 a1 u2"), thread("u1", LIVE))
    assert started(decision) == ("u2", None)
    assert decision.client == Standing(missing=(), knows_newest=True, catch_up=True)
    assert reconcile(post("u1 u2"), thread("u1 a1", LIVE)).client == decision.client


# Nothing unseen in the post: look at its last user message


@pytest.mark.parametrize("state", [LIVE, WAITING])
def test_C22_what_is_running_or_waits_is_attached_to(state):
    assert reconcile(post("u1 a1 u2"), thread("u1 a1 | u2 a2", ANSWERED, state)) == Attach(2)
    assert reconcile(post("u1 a1"), thread("u1 a1 | u2", state, LIVE)) == Attach(1)
    assert reconcile(post("u1 a1 u2 a2 t9"), thread("u1 a1 | u2 a2", ANSWERED, state)) == Attach(2)


def test_what_was_cut_goes_on():
    assert reconcile(post("u1 a1 u2 a2"), thread(TWO_TURNS, ANSWERED, CUT)) == GoOn(client=CURRENT, run=2)


def test_a_client_that_dropped_the_partial_answer_gets_it_back():
    decision = reconcile(post("u1 a1 u2"), thread(TWO_TURNS, ANSWERED, CUT))
    assert decision == GoOn(client=Standing(missing=(), knows_newest=True, catch_up=True), run=2)


def test_the_newest_answer_is_regenerated_and_the_old_one_replaced():
    assert reconcile(post("u1 a1 u2"), thread("u1 a1 | u2 r2 a2")) == Regenerate(client=CURRENT, supersede_from=3)
    assert reconcile(post("u1 u2"), thread("u1 u2 a2")) == Regenerate(client=CURRENT, supersede_from=2)
    assert reconcile(post("u1 a1 u2 a2 t2"), thread("u1 a1 | u2 a2 t2 a3")).supersede_from == 3


@pytest.mark.parametrize("posted", ["u1 a1 u2 a2", "u1 a1 u2 a9"])
def test_a_client_that_still_shows_the_old_answer_gets_snapshots_without_it(posted):
    decision = reconcile(post(posted), thread(TWO_TURNS))
    assert decision == Regenerate(client=Standing(catch_up=True), supersede_from=3)


def test_a_client_that_is_behind_may_regenerate_too():
    decision = reconcile(post("u2"), thread(TWO_TURNS))
    assert decision.supersede_from == 3
    assert decision.client == Standing(missing=("u1", "a1"), knows_newest=True, catch_up=True)


@pytest.mark.parametrize("state", [CUT, ANSWERED])
def test_an_older_turn_is_not_run_again(state):
    assert refusal(reconcile(post("u1 a1"), thread(TWO_TURNS, state))) == stale("u2", "a2")
    assert refusal(reconcile(post("u2 a2 u1 a1"), thread(TWO_TURNS, state))) == stale()
    assert refusal(reconcile(post("u1 a1"), thread("u1 a1 | u2", state, LIVE))) == stale("u2")


@pytest.mark.parametrize("posted", ["u9 a2", "u1 a1 u2 u9 a2"])
def test_a_last_user_message_that_has_no_place_in_the_thread_is_refused(posted):
    assert refusal(reconcile(post(posted), thread(TWO_TURNS)))[:2] == (409, "stale_thread")


def test_imported_messages_are_of_no_turn_and_not_run_again():
    assert refusal(reconcile(post("u1 a1"), thread("u2 a2", imported="u1 a1"))) == stale("u2", "a2")
    assert refusal(reconcile(post("u1* a1 u2 a2"), thread("u2 a2", imported="u1 a1"))) == stale()


@pytest.mark.parametrize("posted", ["", "s1", "a1", "a9 t9", "t1 d1 v1 r1"])
def test_without_a_user_message_the_active_run_is_attached_to_or_there_is_nothing_to_run(posted):
    assert reconcile(post(posted), thread("u1 a1 | u2", ANSWERED, LIVE)) == Attach(2)
    assert refusal(reconcile(post(posted), thread(TWO_TURNS))) == (422, "nothing_to_run", ())
    assert refusal(reconcile(post(posted), thread(TWO_TURNS, ANSWERED, WAITING))) == (422, "nothing_to_run", ())


# Results of frontend tools


def test_the_result_of_an_open_call_continues_the_waiting_turn():
    decision = reconcile(post("u1 a1 t1"), thread("u1 a1", WAITING, calls="c1"))
    assert started(decision) == ("", None)
    assert ids(decision.results) == "t1"
    assert decision.client == CURRENT


def test_each_call_takes_one_result_and_none_under_a_known_id():
    again = message("t8") | {"toolCallId": "c1"}
    posted = post(messages=[message("u1"), message("a1"), message("t1"), again])
    assert ids(reconcile(posted, thread("u1 a1", WAITING, calls="c1")).results) == "t1"
    forged = message("t1") | {"id": "a1"}
    assert reconcile(post(messages=[message("u1"), forged]), thread("u1 a1", WAITING, calls="c1")) == Attach(1)


def test_all_that_is_open_is_answered_together():
    waits = thread("u1 a1", WAITING, calls="c1 c2 c3", interrupts="i1")
    assert refusal(reconcile(post("u1 a1 t2"), waits)) == (422, "answers_missing", ("c1", "c3", "i1"))
    assert ids(reconcile(post("u1 a1 t2 t1 t3"), thread("u1 a1", WAITING, calls="c1 c2 c3")).results) == "t2 t1 t3"


def test_a_new_user_message_may_come_with_some_of_the_results():
    decision = reconcile(post("u1 a1 t1 u2"), thread("u1 a1", WAITING, calls="c1 c2"))
    assert started(decision) == ("u2", None)
    assert ids(decision.results) == "t1"
    assert not decision.resume


@pytest.mark.parametrize("posted", ["u1 a1 t1", "u1 a1 a2 t9 s1"])
def test_C26_a_result_that_nothing_waits_for_starts_and_replaces_nothing(posted):
    assert reconcile(post(posted), thread("u1 a1 a2")) == Attach(1)


# resume


def test_a_post_that_decides_interrupts_is_never_taken_for_one_with_nothing_unseen():
    waits = thread("u1 a1", WAITING, interrupts="i1", calls="c1")
    decision = reconcile(post("u1 a1", resume=True), waits)
    assert decision == Start(client=CURRENT, resume=True)
    decision = reconcile(post("u1 a1 t1 u2", resume=True), waits)
    assert (ids(decision.messages), ids(decision.results), decision.resume) == ("u2", "t1", True)
    assert reconcile(post("", resume=True), thread("u1 a1")).resume
    assert reconcile(post("u1*", resume=True, base=7), waits).supersede_from is None
    assert reconcile(post("u1 a1", resume=True), None) == Start(client=Standing(catch_up=True), resume=True)


# A known id with changed content is an edit of that turn


@pytest.mark.parametrize("state", [LIVE, WAITING, CUT, ANSWERED])
def test_an_edit_of_the_newest_turn_replaces_it_whatever_has_become_of_it(state):
    decision = reconcile(post("u1 a1 u2*"), thread(TWO_TURNS, ANSWERED, state))
    assert started(decision) == ("u2", 2)
    assert decision.messages[0].content == "content of u2*"
    assert decision.client == CURRENT
    assert reconcile(post("u1 a1 u2* a2"), thread(TWO_TURNS, ANSWERED, state)).client.catch_up


@pytest.mark.parametrize("state", [LIVE, WAITING, CUT, ANSWERED])
def test_an_edit_of_an_older_turn_is_refused(state):
    assert refusal(reconcile(post("u1* a1"), thread(TWO_TURNS, state))) == stale("u2", "a2")
    assert refusal(reconcile(post("u1* a1 u2 a2"), thread(TWO_TURNS, state))) == stale()


def test_an_edit_keeps_what_was_said_with_it():
    assert started(reconcile(post("u1* u2"), thread("u1 u2 a1"))) == ("u1 u2", 0)
    assert started(reconcile(post("u1 u2*"), thread("u1 u2 a1"))) == ("u2", 1)
    assert refusal(reconcile(post("u1*"), thread("u1 u2 a1")))[:2] == (409, "stale_thread")


def test_a_client_that_is_behind_may_edit_the_newest_turn():
    decision = reconcile(post("u2*"), thread(TWO_TURNS))
    assert started(decision) == ("u2", 2)
    assert decision.client == Standing(missing=("u1", "a1"), knows_newest=False, catch_up=True)


def test_an_edit_under_a_new_turn_is_not_made_and_the_client_is_corrected():
    decision = reconcile(post("u1 a1 u2* a2 u3"), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)
    assert decision.client.catch_up


@pytest.mark.parametrize("state", [CUT, ANSWERED])
def test_a_version_that_an_edit_has_replaced_is_a_client_that_is_behind(state):
    stored = thread(TWO_TURNS, ANSWERED, state, former="u2*")
    assert refusal(reconcile(post("u1 a1 u2*"), stored)) == stale("a2")
    assert started(reconcile(post("u1 a1 u2* a2 u3"), stored)) == ("u3", None)
    assert reconcile(post("u1 a1 u2* a2 u3"), stored).client.catch_up
    assert started(reconcile(post("u1 a1 u2*", base=7), stored)) == ("u2", 2)
    assert reconcile(post("u1* a1 u2"), thread(TWO_TURNS, former="u1*")).supersede_from == 3


@pytest.mark.parametrize("state", [LIVE, WAITING])
def test_C22_a_late_copy_of_an_earlier_edit_replaces_nothing(state):
    assert reconcile(post("u1 a1 u2*"), thread(TWO_TURNS, ANSWERED, state, former="u2*")) == Attach(2)


# baseRevision makes an edit or truncation at any place deliberate


@pytest.mark.parametrize(
    ("posted", "accepted", "place"),
    [
        ("u1 a1 u9", "u9", 2),
        ("u1 u9", "u9", 1),
        ("u1 a9 u9", "u9", 2),
        ("u1 a1 u2 u9", "u9", 3),
        ("u1* ", "u1", 0),
        ("u1* a1 u2 a2 u3 a3", "u1", 0),
        ("u1 a1 u2*", "u2", 2),
        ("u1 a1 u2* a2 u3* a3", "u2 u3", 2),
        ("u1 a1 u2* a2 u9", "u2 u9", 2),
    ],
)
def test_a_client_that_knows_the_revision_replaces_the_tail(posted, accepted, place):
    decision = reconcile(post(posted, base=7), thread("u1 a1 | u2 a2 | u3 a3"))
    assert started(decision) == (accepted, place)
    assert decision.client.missing == ()
    assert decision.client.knows_newest


def test_a_truncation_with_nothing_new_regenerates_the_turn_it_ends_in():
    stored = thread("u1 a1 | u2 a2 | u3 a3", ANSWERED, CUT, LIVE)
    assert reconcile(post("u1 a1", base=7), stored) == Regenerate(client=Standing(catch_up=True), supersede_from=1)
    assert reconcile(post("u1 a1 u2", base=7), stored) == Regenerate(client=CURRENT, supersede_from=3)


def test_a_truncation_may_end_within_an_answer():
    assert started(reconcile(post("u1 a1 t1 u9", base=7), thread("u1 a1 t1 a2 | u2"))) == ("u9", 3)
    assert started(reconcile(post("u1 a2 u9", base=7), thread("u1 a1 t1 a2 v1 | u2"))) == ("u9", 5)


@pytest.mark.parametrize("base", [6, 8, -1, "7", 7.5, True, None, [7]])
def test_another_revision_means_merge(base):
    decision = reconcile(post("u1 a1 u3", base=base), thread(TWO_TURNS))
    assert started(decision) == ("u3", None)
    assert decision.client.catch_up
    assert refusal(reconcile(post("u1* a1", base=base), thread(TWO_TURNS))) == stale("u2", "a2")


@pytest.mark.parametrize("posted", ["u9", "u2 a2 u9", "u1 u2 u9", "a1 u9", "u2 u1 u9", "u1 a1 u8 u9", "a9 u9"])
def test_no_contiguous_prefix_means_merge(posted):
    stored = thread("u1 a1 | u2 a2 | u3 a3", superseded="u8")
    decision = reconcile(post(posted, base=7), stored)
    assert started(decision) == ("u9", None)


def test_the_revision_of_a_current_client_changes_nothing():
    assert started(reconcile(post("u1 a1 u2 a2 u3", base=7), thread(TWO_TURNS))) == ("u3", None)
    assert reconcile(post("u1 a1 u2 a2", base=7), thread(TWO_TURNS, ANSWERED, CUT)) == GoOn(client=CURRENT, run=2)
    assert refusal(reconcile(post("", base=7), thread(TWO_TURNS))) == (422, "nothing_to_run", ())
    assert refusal(reconcile(post("a1", base=7), thread("u2", imported="a1"))) == (422, "nothing_to_run", ())


def test_what_a_running_turn_has_saved_meanwhile_is_not_cut_off():
    assert started(reconcile(post("u1 u2", base=7), thread("u1 a1 t1", LIVE))) == ("u2", None)
    assert reconcile(post("u1", base=7), thread("u1 a1 t1", LIVE)) == Attach(1)


# If-Match and on_stale_client


def test_if_match_holds_for_every_post_and_before_all_else():
    assert refusal(reconcile(post("u1"), thread("u1", LIVE), if_match=6)) == (412, "precondition_failed", ())
    assert refusal(reconcile(post("u1"), None, if_match=7)) == (412, "precondition_failed", ())
    assert reconcile(post("u1"), thread("u1", LIVE), if_match=7) == Attach(1)


REJECT = ThreadPolicy(on_stale_client="reject")


@pytest.mark.parametrize(
    ("posted", "stored", "missing"),
    [
        (post("u1 a1 u3"), thread(TWO_TURNS), "u2 a2"),
        (post("u3"), thread(TWO_TURNS), "u1 a1 u2 a2"),
        (post("u2"), thread(TWO_TURNS), "u1 a1"),
        (post("u2*"), thread(TWO_TURNS), "u1 a1"),
        (post("u2"), thread(TWO_TURNS, ANSWERED, CUT), "u1 a1"),
        (post("t2"), thread(TWO_TURNS, ANSWERED, WAITING, calls="c2"), "u1 a1 u2 a2"),
        (post("u1 a1 u3", base=6), thread(TWO_TURNS), "u2 a2"),
        (post("u2 u3", base=7), thread(TWO_TURNS), "u1 a1 a2"),
    ],
)
def test_a_mount_may_reject_clients_that_are_behind(posted, stored, missing):
    assert refusal(reconcile(posted, stored, policy=REJECT)) == stale(*missing.split())


@pytest.mark.parametrize(
    ("posted", "stored"),
    [
        (post("u1 a1 u2 a2 u3"), thread(TWO_TURNS)),
        (post("u1 a1 u2"), thread(TWO_TURNS)),
        (post("u1 a1 u2"), thread(TWO_TURNS, ANSWERED, CUT)),
        (post("u1 a1 u2*"), thread(TWO_TURNS)),
        (post("u1 a1 u9", base=7), thread(TWO_TURNS)),
        (post("u1*", base=7), thread(TWO_TURNS)),
        (post("u1 a8 u2 a9 u3"), thread(TWO_TURNS)),
        (post("u2"), thread(TWO_TURNS, ANSWERED, LIVE)),
        (post(""), thread("u1", LIVE)),
        (post("u1 u2"), thread("u1 a1", LIVE)),
        (post("u1"), None),
    ],
)
def test_such_a_mount_treats_all_others_alike(posted, stored):
    decision = reconcile(posted, stored, policy=REJECT)
    assert not isinstance(decision, Refuse)
    assert decision == reconcile(posted, stored)


# Attaching where a thread is busy


def test_where_runs_are_attached_to_only_a_post_with_nothing_unseen_is():
    attach = ThreadPolicy(on_concurrent_run="attach")
    busy = thread("u1 a1 | u2 a2 | u3", ANSWERED, LIVE, LIVE)
    assert reconcile(post("u1 a1"), busy, policy=attach) == Attach(2)
    assert reconcile(post("u1 a1 u2 u3"), busy, policy=attach) == Attach(2)
    assert started(reconcile(post("u1 a1 u4"), busy, policy=attach)) == ("u4", None)
    assert started(reconcile(post("u1 a1 u2 a2 u3*"), busy, policy=attach)) == ("u3", 4)
    assert reconcile(post("u1 a1"), thread("u1 a1"), policy=attach).supersede_from == 1


# A thread that does not exist

IMPORT = ThreadPolicy(client_history="import")


@pytest.mark.parametrize(
    ("posted", "accepted", "catch_up"),
    [
        ("u1", "u1", False),
        ("u1 u2 u1", "u1 u2", False),
        ("s1 d1 a1 u1", "u1", False),
        ("u1 a1 u2", "u2", True),
        ("u1 a1 t1 u2 r1 u3", "u2 u3", True),
    ],
)
def test_a_transcript_for_an_unknown_thread_is_dropped_up_to_its_last_answer(posted, accepted, catch_up):
    decision = reconcile(post(posted), None)
    assert decision == Start(client=Standing(catch_up=catch_up), messages=decision.messages)
    assert ids(decision.messages) == accepted


@pytest.mark.parametrize("posted", ["", "s1", "u1 a1", "u1 a1 t1", "a1"])
def test_an_unknown_thread_does_not_begin_with_nothing(posted):
    assert refusal(reconcile(post(posted), None)) == (422, "nothing_to_run", ())


def test_a_mount_may_import_the_transcript_but_never_its_instructions():
    decision = reconcile(post("s1 u1 r1 a1 t1 d1 a2 u1 u2 s2 u3"), None, policy=IMPORT)
    assert (ids(decision.history), ids(decision.messages)) == ("u1 r1 a1 t1 a2", "u2 u3")
    assert decision.client == CURRENT
    decision = reconcile(post("u1 a1 t1"), None, policy=IMPORT)
    assert (ids(decision.history), ids(decision.messages)) == ("u1 a1 t1", "")
    assert refusal(reconcile(post("u1 a1"), None, policy=IMPORT)) == (422, "nothing_to_run", ())
    assert reconcile(post("a9 u3"), thread(TWO_TURNS), policy=IMPORT).history == ()


# State


@pytest.mark.parametrize(
    ("stored", "posted", "newest", "behind"),
    [
        ({"a": 1, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 2, "c": 2}, {"a": 1, "b": 1, "c": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"y": 2}}, {"a": {"x": 1}}),
        ({"a": 1}, {"a": None}, {"a": None}, {"a": 1}),
        ({"a": 1}, {}, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}, {"a": 1}),
        ([1], [], [1], [1]),
        (None, {"a": 1}, {"a": 1}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}, {"a": 1}),
        (None, None, None, None),
        (None, {}, None, None),
        ([1], [2], [2], [1]),
        ({"a": 1}, 0, 0, {"a": 1}),
        (False, {"a": 1}, {"a": 1}, False),
    ],
)
def test_the_posted_state_lies_over_the_stored_one_and_that_of_a_client_that_is_behind_under_it(
    stored, posted, newest, behind
):
    assert overlay_state(stored, posted, knows_newest=True) == newest
    assert overlay_state(stored, posted, knows_newest=False) == behind


def test_laying_states_over_each_other_changes_neither():
    stored, posted = {"a": 1}, {"a": 2, "b": 2}
    overlay_state(stored, posted, knows_newest=True)
    overlay_state(stored, posted, knows_newest=False)
    assert (stored, posted) == ({"a": 1}, {"a": 2, "b": 2})
