"""What people say of calls whose outcome nobody knows."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.db import connection
from pydantic_ai.messages import ToolReturnPart

from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.effects import settle
from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS, Verdict
from tests.api.posting import error, events, post
from tests.effects.agent import GATES, SECRET, model
from tests.effects.turns import ledger, say, status
from tests.store.factories import request_of
from tests.waiting import eventually

EFFECTS = "/talk/runs/r1/effects/"


def resolve(client, url, verdict="happened", **more):
    return client.post(url, {"verdict": verdict, **more}, content_type="application/json")


def row_of(client, run_id="r1", mount="talk"):
    return next(row for row in client.get(f"/{mount}/runs/").json()["runs"] if row["run_id"] == run_id)


def unresolved(user):
    store = DefaultStepStore(request_of(user))
    return async_to_sync(store.list_unresolved_tool_effects)(run_id="r1")


@pytest.fixture
def unknown(client):
    """A call that was cancelled, and the URL by which it is settled."""
    say(client, "act cancelled")
    (row,) = client.get(EFFECTS).json()["effects"]
    return row["links"]["resolve"]


def test_a_verdict_settles_a_call_and_leaves_its_status(client, user, unknown):
    assert row_of(client)["unresolved_effects"] == len(unresolved(user)) == 1
    assert row_of(client)["links"]["effects"] == EFFECTS
    answer = resolve(client, unknown, "did_not_happen", note="asked the bank")
    assert answer.status_code == 200
    (row,) = client.get(EFFECTS).json()["effects"]
    assert answer.json() == row
    assert row["verdict_at"] is not None
    told = ("status", "reason", "unresolved", "verdict", "note", "arguments")
    assert [row[name] for name in told] == [
        "started",
        "cancel",
        False,
        "did_not_happen",
        "asked the bank",
        '{"how":"cancelled"}',
    ]
    assert ToolEffect.objects.get().verdict_by == f"user:{user.pk}"
    assert f"user:{user.pk}" not in str(row)
    assert row_of(client)["unresolved_effects"] == len(unresolved(user)) == 0


def test_the_link_to_a_verdict_is_usable_whatever_the_id_of_the_run_and_however_it_was_asked_for(client):
    run_id = "run 1?é~"
    events(post(client, "/strict/", run_id, "hurry timeout"))
    for segment in (encode_id(run_id), quote(run_id)):
        (row,) = client.get(f"/strict/runs/{segment}/effects/").json()["effects"]
        assert row["links"] == {"resolve": f"/strict/runs/{encode_id(run_id)}/effects/hurry-timeout/resolve/"}
    assert resolve(client, row["links"]["resolve"]).status_code == 200


def test_a_second_verdict_is_told_the_first(client, unknown):
    resolve(client, unknown, "happened")
    answer = resolve(client, unknown, "ignored")
    assert (answer.status_code, answer.json()["code"]) == (409, "already_resolved")
    assert answer.json()["effect"]["verdict"] == "happened"
    assert ToolEffect.objects.get().verdict == Verdict.HAPPENED


def test_of_many_verdicts_at_once_one_counts(client, unknown):
    key = ToolEffect.objects.get().pk

    def give(number):
        try:
            return settle(key, Verdict.HAPPENED, by=f"user:{number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(give, range(4)))
    assert sorted(won) == [False, False, False, True]
    assert ToolEffect.objects.get().verdict_by == f"user:{won.index(True)}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"verdict": "maybe"}, (422, "invalid_verdict")),
        ({}, (422, "invalid_verdict")),
        ({"verdict": ["happened"]}, (422, "invalid_verdict")),
        ({"verdict": "happened", "note": 1}, (422, "invalid_note")),
        ({"verdict": "happened", "note": "x" * (MAX_NOTE_CHARACTERS + 1)}, (422, "invalid_note")),
        ([], (400, "invalid_input")),
    ],
)
def test_a_body_without_a_verdict_changes_nothing(client, unknown, body, expected):
    assert error(client.post(unknown, json.dumps(body), content_type="application/json")) == expected
    assert ToolEffect.objects.get().verdict == ""


def test_foreign_and_unknown_runs_answer_alike(client, stranger, unknown):
    answers = [
        resolve(stranger, unknown),
        resolve(client, unknown.replace("r1", "r9")),
        stranger.get(EFFECTS),
        client.get("/talk/runs/r9/effects/"),
    ]
    assert {(answer.status_code, answer.content) for answer in answers} == {
        (404, b'{"error":"there is no such run","code":"not_found"}')
    }
    assert error(resolve(client, f"{EFFECTS}other/resolve/")) == (404, "not_found")
    assert ToolEffect.objects.get().verdict == ""


def test_a_call_of_a_live_run_takes_no_verdict(client):
    message = {"id": "u1", "role": "user", "content": "act cancelled"}
    response = post(client, "/talk/", "r1", [message])
    GATES["cancelled"].wait_reached()
    answer = resolve(client, f"{EFFECTS}act-cancelled/resolve/")
    assert (answer.status_code, answer.json()["code"]) == (409, "still_running")
    GATES["cancelled"].open()
    events(response)
    assert (ledger(), ToolEffect.objects.get().verdict) == ({"act-cancelled": ("completed", "")}, "")
    assert resolve(client, f"{EFFECTS}act-cancelled/resolve/").json()["code"] == "already_resolved"


def test_a_call_of_a_delegate_inside_a_live_run_takes_no_verdict(client):
    response = post(client, "/talk/", "r1", [{"id": "u1", "role": "user", "content": "ask cancelled"}])
    GATES["cancelled"].wait_reached()
    inner = ToolEffect.objects.get(tool_call_id="inner")
    assert not settle(inner.pk, Verdict.HAPPENED, by="user:1")
    GATES["cancelled"].open()
    events(response)
    inner.refresh_from_db()
    assert (inner.status, inner.verdict) == ("completed", "")


def test_C41_a_call_that_ends_behind_a_verdict_keeps_both(client):
    say(client, "act_sync cancelled")
    resolve(client, f"{EFFECTS}act_sync-cancelled/resolve/", "did_not_happen")
    GATES["cancelled"].open()
    eventually(lambda: ledger() == {"act_sync-cancelled": ("completed", "")})
    effect = ToolEffect.objects.get()
    assert (effect.verdict, effect.result) == (Verdict.DID_NOT_HAPPEN, '"cancelled"')


def test_C16_one_call_id_in_two_runs_is_settled_in_each(client, unknown):
    GATES.clear()
    say(client, "act cancelled", number=2)
    assert resolve(client, unknown).status_code == 200
    assert [row_of(client, run)["unresolved_effects"] for run in ("r1", "r2")] == [0, 1]


def test_the_calls_of_a_delegate_are_settled_at_the_run_that_had_it_act(client):
    say(client, "ask cancelled")
    rows = client.get(EFFECTS).json()["effects"]
    assert [(row["tool_name"], row["unresolved"]) for row in rows] == [("ask", True), ("act", True)]
    assert resolve(client, rows[1]["links"]["resolve"]).json()["tool_name"] == "act"


def test_C28_the_text_of_an_exception_is_not_told(client):
    say(client, "act raised")
    (row,) = client.get(EFFECTS).json()["effects"]
    assert (row["status"], row["summary"]) == ("failed", None)
    assert SECRET not in str(row)
    assert SECRET in ToolEffect.objects.get().effect_summary


@pytest.mark.parametrize("route", ["resume", "fork"])
def test_a_run_is_not_continued_before_its_effects_are_settled(client, route):
    say(client, "hurry timeout", mount="strict")
    message = {"id": "u2", "role": "user", "content": "hello"}

    def go_on(run_id):
        return post(client, f"/strict/{route}/r1/", run_id, [message], thread_id="t", protocolVersion="1.0")

    answer = go_on("r2")
    assert (answer.status_code, answer.json()["code"]) == (409, "unresolved_effects")
    assert answer.json()["effects"] == [{"tool_call_id": "hurry-timeout", "tool_name": "hurry"}]
    assert not Run.objects.filter(run_id="r2").exists()
    resolve(client, "/strict/runs/r1/effects/hurry-timeout/resolve/", "ignored")
    assert events(go_on("r2"))[-1]["type"] == "RUN_FINISHED"


def test_a_run_that_goes_on_from_unknown_effects_says_so(client):
    say(client, "hurry timeout")
    message = {"id": "u2", "role": "user", "content": "hello"}
    events(post(client, "/talk/resume/r1/", "r2", [message], thread_id="t"))
    assert status("r2") == "finished"
    row = row_of(client, "r2")
    assert (row["unresolved_effects"], row["parent_unresolved_effects"]) == (0, 1)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (None, "The tool call was interrupted before a result was produced."),
        ("happened", "The tool has run, but its result was lost."),
        ("did_not_happen", "The tool call was interrupted, and the tool has done nothing."),
        (
            "ignored",
            "The tool call was interrupted. Nobody knows whether the tool has done anything.",
        ),
    ],
)
def test_the_next_turn_tells_the_model_the_verdict(client, unknown, verdict, told):
    if verdict is not None:
        resolve(client, unknown, verdict)
    say(client, "hello", number=2)
    returned = [part for message in model.requests[-1] for part in message.parts if isinstance(part, ToolReturnPart)]
    assert [(part.tool_call_id, part.content) for part in returned] == [("act-cancelled", told)]


def test_the_next_turn_tells_the_model_of_a_call_that_has_returned_beside_one_that_was_cut(client):
    say(client, "act cancelled + pay now")
    eventually(lambda: ledger()["pay-now"][0] in ("completed", "failed"))
    ToolEffect.objects.filter(tool_name="pay").update(status="completed")
    say(client, "hello", number=2)
    returned = [part for message in model.requests[-1] for part in message.parts if isinstance(part, ToolReturnPart)]
    assert {part.tool_call_id: part.content for part in returned} == {
        "act-cancelled": "The tool call was interrupted before a result was produced.",
        "pay-now": "The tool has run, but its result was lost.",
    }


def test_another_step_store_shows_and_counts_its_unresolved_calls_and_takes_no_verdict(client):
    say(client, "hurry timeout", mount="foreign")
    listed = row_of(client, mount="foreign")
    assert (listed["unresolved_effects"], listed["links"]["effects"]) == (1, "/foreign/runs/r1/effects/")
    assert client.get("/foreign/runs/r1/").json()["unresolved_effects"] == 1
    (row,) = client.get("/foreign/runs/r1/effects/").json()["effects"]
    assert (row["tool_call_id"], row["status"], row["unresolved"]) == ("hurry-timeout", "started", True)
    assert error(resolve(client, "/foreign/runs/r1/effects/hurry-timeout/resolve/")) == (409, "verdicts_unavailable")


def test_a_call_is_named_as_in_the_events_where_the_model_uses_an_id_again(client):
    say(client, "hurry timeout")
    message = {"id": "u2", "role": "user", "content": "hurry timeout"}
    events(post(client, "/talk/resume/r1/", "r2", [message], thread_id="t"))
    for run, shown in {"r1": "hurry-timeout", "r2": "hurry-timeout~2"}.items():
        (row,) = client.get(f"/talk/runs/{run}/effects/").json()["effects"]
        assert (row["tool_call_id"], row["event_tool_call_id"]) == ("hurry-timeout", shown)


def test_the_command_lists_and_settles(client, unknown):
    key, out = ToolEffect.objects.get().pk, StringIO()
    call_command("settle_effect", stdout=out)
    assert out.getvalue().startswith(f"{key}: run r1, ")
    assert 'act {"how":"cancelled"} (cancel)' in out.getvalue()
    call_command("settle_effect", str(key), "happened", "--by", "ada", "--note", "seen", stdout=out)
    effect = ToolEffect.objects.get()
    assert (effect.verdict, effect.verdict_by, effect.verdict_note) == ("happened", "ada", "seen")
    with pytest.raises(CommandError, match="has a verdict already, by ada: it happened"):
        call_command("settle_effect", str(key), "ignored", stdout=out)
    with pytest.raises(CommandError, match="There is no effect 0"):
        call_command("settle_effect", "0", "ignored", stdout=out)
    with pytest.raises(CommandError, match="Say what happened"):
        call_command("settle_effect", str(key), stdout=out)
