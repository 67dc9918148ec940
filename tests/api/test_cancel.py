"""POST runs/<run>/cancel/."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_pydantic_agent.contrib.store.models import Run
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, error, events, frames, parse, post

CANCEL = "/agent/runs/r1/cancel/"


def begun(client: Client, url: str = "/agent/", run_id: str = "r1") -> tuple[list[bytes], object]:
    """Start a run that waits at the gate "here"; return what was seen of it, and the rest."""
    stream = chunks(post(client, url, run_id, "wait here", protocolVersion="1.0"))
    seen = [next(stream)]
    while b"begun" not in seen[-1]:
        seen.append(next(stream))
    return seen, stream


def test_C21_a_run_is_stopped_by_a_request_of_its_own(client: Client, live: None):
    seen, rest = begun(client)
    follower = chunks(client.get("/agent/runs/r1/events/?protocol=1.0"))
    next(follower)
    answer = client.post(CANCEL)
    assert answer.status_code in (200, 202)
    assert answer.json()["run_id"] == "r1"
    whole = parse(b"".join([*seen, *rest]))
    assert whole[-1].event["outcome"] == {"type": "cancelled"}
    assert parse(b"".join(follower))[-1] == whole[-1]
    for _ in range(2):
        answer = client.post(CANCEL)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert client.get("/agent/runs/r1/").json() == answer.json()


def test_C21_a_follower_that_leaves_stops_nothing(client: Client, live: None):
    seen, rest = begun(client)
    leaving, staying = (client.get("/agent/runs/r1/events/") for _ in range(2))
    kept = chunks(staying)
    next(kept)
    next(chunks(leaving))
    leaving.close()
    GATES["here"].open()
    whole = parse(b"".join([*seen, *rest]))
    assert whole[-1].event["outcome"] == {"type": "success"}
    assert parse(b"".join(kept))[-1] == whole[-1]


def test_a_run_that_has_ended_stays_as_it_is(client: Client):
    frames(post(client, "/agent/", "r1", "hi"))
    before = Run.objects.values().get()
    answer = client.post(CANCEL)
    assert (answer.status_code, answer.json()["status"]) == (200, "finished")
    assert Run.objects.values().get() == before


@pytest.mark.parametrize("prompt", ["fail", "ask"])
def test_a_run_that_failed_or_waits_says_so(client: Client, prompt: str):
    tools = [{"name": "ask", "description": "Ask the user.", "parameters": {"type": "object", "properties": {}}}]
    frames(post(client, "/agent/", "r1", prompt, tools=tools))
    answer = client.post(CANCEL)
    assert (answer.status_code, answer.json()["status"]) == (200, Run.objects.get().status)


def test_foreign_and_unknown_runs_answer_alike_and_go_on(client: Client, stranger: Client, live: None):
    seen, rest = begun(client)
    foreign, unknown = stranger.post(CANCEL), stranger.post("/agent/runs/r2/cancel/")
    assert error(foreign) == error(unknown) == (404, "not_found")
    assert foreign.content == unknown.content
    GATES["here"].open()
    assert parse(b"".join([*seen, *rest]))[-1].event["outcome"] == {"type": "success"}


@pytest.mark.parametrize("body", [b"", b"{}", b"garbage", b"\xff"])
def test_the_body_is_no_matter(client: Client, body: bytes):
    frames(post(client, "/agent/", "r1"))
    for content_type in ("application/json", "text/plain", ""):
        assert client.generic("POST", CANCEL, body, CONTENT_TYPE=content_type).status_code == 200


def test_C27_stopping_needs_the_token_of_the_mount(user: User):
    browser = logged_in(user, enforce_csrf_checks=True)
    assert error(browser.post(CANCEL)) == (403, "csrf_failed")
    assert error(browser.post("/exempt/runs/r1/cancel/")) == (404, "not_found")


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_nothing_but_a_post_stops_a_run(client: Client, method: str):
    frames(post(client, "/agent/", "r1"))
    assert error(getattr(client, method)(CANCEL)) == (405, "method_not_allowed")


def test_a_queued_turn_is_stopped_before_it_runs(client: Client, live: None):
    seen, rest = begun(client, "/talk/", "r1")
    queued = chunks(post(client, "/talk/", "r2", [{"id": "u2", "role": "user", "content": "next"}]))
    next(queued)
    assert client.post("/talk/runs/r2/cancel/").status_code in (200, 202)
    assert Run.objects.get(run_id="r1").status == "running"
    GATES["here"].open()
    assert parse(b"".join([*seen, *rest]))[-1].event["outcome"] == {"type": "success"}
    b"".join(queued)
    answer = client.post("/talk/runs/r2/cancel/")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert events(client.get("/talk/runs/r2/events/?protocol=1.0"))[-1]["outcome"] == {"type": "cancelled"}
