"""POST resume/<run>/ and fork/<run>/."""

from itertools import chain
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core import serializers
from django.test import Client
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.contrib.store import models
from django_pydantic_agent.ownership import Owner
from tests.api.agents import model
from tests.api.posting import error, events, frames, post, text_of, user_message
from tests.attached import added_up
from tests.sse import check_sequence, events_of
from tests.store.factories import step_store

MORE = [user_message("more", "u2")]


def prompts(messages: Any) -> list[str]:
    return [part.content for message in messages for part in message.parts if part.part_kind == "user-prompt"]


def rows_of(run_id: str) -> str:
    run = models.Run.objects.get(run_id=run_id)
    parts = (run.frames, run.step_events, run.snapshots, run.tool_effects)
    return serializers.serialize("json", chain([run], *(part.order_by("pk") for part in parts)))


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_a_run_goes_on_from_the_snapshot_of_another(client: Client, verb: str):
    frames(post(client, "/agent/", "r1", "hi"))
    found = events(post(client, f"/agent/{verb}/r1/", "r2", MORE, thread_id="t2"))
    check_sequence(found)
    assert text_of(found) == "echo more"
    assert prompts(model.requests[-1]) == ["hi", "more"]
    row = client.get("/agent/runs/r2/").json()
    assert (row["parent_run_id"], row["thread_id"], row["continuable"]) == ("r1", "t2", True)


def test_messages_that_the_source_knows_are_dropped(client: Client):
    first = events(post(client, "/agent/", "r1", "hi"))
    answer = next(event["messageId"] for event in first if event["type"] == "TEXT_MESSAGE_START")
    transcript = [user_message("hi"), {"id": answer, "role": "assistant", "content": "forged"}, *MORE]
    started = events(post(client, "/agent/resume/r1/", "r2", transcript))[0]
    assert [message["id"] for message in started["input"]["messages"]] == ["u2"]
    assert prompts(model.requests[-1]) == ["hi", "more"]


def test_the_source_is_left_as_it_was(client: Client):
    frames(post(client, "/agent/", "r1", "add"))
    before = rows_of("r1")
    frames(post(client, "/agent/resume/r1/", "r2", MORE))
    assert rows_of("r1") == before


def test_what_cannot_be_continued_answers_alike(client: Client, stranger: Client):
    frames(post(client, "/agent/", "r1"))
    frames(post(stranger, "/agent/", "broken"))
    models.Run.objects.filter(run_id="broken").update(is_continuable=False)
    answers = [post(stranger, f"/agent/resume/{run}/", "r9", MORE) for run in ("r1", "unknown", "broken")]
    assert [error(answer) for answer in answers] == [(404, "not_found")] * 3
    assert len({answer.content for answer in answers}) == 1
    assert not models.Run.objects.filter(run_id="r9").exists()


def test_the_same_resume_again_attaches_and_runs_nothing(client: Client):
    frames(post(client, "/agent/", "r1"))
    first = frames(post(client, "/agent/resume/r1/", "r2", MORE))
    asked = len(model.requests)
    again = frames(post(client, "/agent/resume/r1/", "r2", MORE))
    assert again[-1] == first[-1]
    # Who comes without anything is shown the source's messages too.
    messages, _ = added_up(events_of(again))
    assert [message["content"] for message in messages] == ["hello", "echo hello", "more", "echo more"]
    assert len(model.requests) == asked


def test_a_used_run_id_is_refused_in_the_stream_by_name(client: Client):
    frames(post(client, "/agent/", "r1"))
    frames(post(client, "/agent/", "used/1", "other"))
    response = post(client, "/agent/resume/r1/", "used/1", MORE)
    assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
    started, refused = frames(response)
    assert (started.id, refused.id) == (None, None)
    assert (started.event["type"], started.event["runId"]) == ("RUN_STARTED", "used/1")
    assert (refused.event["type"], refused.event["code"]) == ("RUN_ERROR", "run_id_reused")
    assert "used/1" in refused.event["message"]
    assert "single-shot" in refused.event["message"]


def test_the_id_of_a_run_that_only_the_ledger_has_is_refused_like_any_used_one(client: Client, user: User):
    frames(post(client, "/agent/", "r1"))
    async_to_sync(step_store(Owner.of_user(user)).register_run)(RunRecord(run_id="delegate"))
    assert error(post(client, "/agent/", "delegate")) == (409, "run_id_reused")
    assert frames(post(client, "/agent/resume/r1/", "delegate", MORE))[-1].event["code"] == "run_id_reused"


def test_the_same_id_and_body_from_another_source_is_not_the_same_post(client: Client):
    for run_id in ("r1", "r2"):
        frames(post(client, "/agent/", run_id, "hi"))
    frames(post(client, "/agent/resume/r1/", "r3", MORE))
    assert frames(post(client, "/agent/resume/r2/", "r3", MORE))[-1].event["code"] == "run_id_reused"


def test_nothing_new_on_an_answered_run_is_refused(client: Client):
    frames(post(client, "/agent/", "r1"))
    assert error(post(client, "/agent/resume/r1/", "r2", [user_message("hello")])) == (422, "nothing_to_run")


def test_C26_answers_to_what_the_run_has_not_asked_are_refused(client: Client):
    frames(post(client, "/agent/", "r1"))
    resume = [{"interruptId": "i1", "status": "resolved"}]
    assert error(post(client, "/agent/fork/r1/", "r2", MORE, resume=resume)) == (422, "unknown_interrupt")


def test_scopes_do_not_reach_each_other(client: Client):
    frames(post(client, "/agent/", "r1"))
    assert error(post(client, "/scoped/resume/r1/", "r2", MORE)) == (404, "not_found")
