"""POST "": starting a run, attaching to it, and what the run keeps of the request."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_pydantic_agent.contrib.store.models import Run
from tests.api import urls
from tests.api.agents import GATES, model
from tests.api.conftest import logged_in
from tests.api.posting import (
    chunks,
    error,
    events,
    frames,
    parse,
    post,
    run_input,
    run_links,
    text_of,
    user_message,
)
from tests.attached import check_attached
from tests.sse import Frame, check_sequence


def test_a_post_streams_its_run_from_started_to_finished(client: Client):
    response = post(client, "/agent/", "r1", "hi")
    found = frames(response)
    check_sequence([frame.event for frame in found])
    assert [frame.id for frame in found] == [f"r1:{seq}" for seq in range(1, len(found) + 1)]
    assert text_of([frame.event for frame in found]) == "echo hi"
    assert found[-1].event["type"] == "RUN_FINISHED"


def test_C03_the_first_frame_arrives_before_the_second_exists_under_wsgi(client: Client, live: None):
    stream = chunks(post(client, "/agent/", "r1", "wait here"))
    # What the model said before the gate may be in the same chunk; what comes behind the gate cannot be.
    first, *more = parse(next(stream))
    assert first.event["type"] == "RUN_STARTED"
    assert all(frame.event["type"] != "RUN_FINISHED" for frame in more)
    GATES["here"].open()
    assert parse(b"".join(stream))[-1].event["type"] == "RUN_FINISHED"


@pytest.mark.django_db(transaction=True)
@pytest.mark.anyio
async def test_C03_the_first_frame_arrives_before_the_second_exists_under_asgi(live: None):
    user = await User.objects.acreate(username="ada")
    client = AsyncClient()
    await client.aforce_login(user)
    body = json.dumps(run_input("r1", "wait here"))
    response = await client.post("/agent/", body, content_type="application/json")
    stream = aiter(response)
    first, *more = parse(await anext(stream))
    assert first.event["type"] == "RUN_STARTED"
    assert all(frame.event["type"] != "RUN_FINISHED" for frame in more)
    GATES["here"].open()
    assert parse(b"".join([chunk async for chunk in stream]))[-1].event["type"] == "RUN_FINISHED"


def test_the_stream_has_the_headers_of_a_stream(client: Client):
    response = post(client, "/agent/")
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-cache, no-transform"
    assert response["X-Accel-Buffering"] == "no"
    assert not response.has_header("Content-Length")
    frames(response)


def test_the_same_post_again_attaches_and_runs_nothing(client: Client):
    first = frames(post(client, "/agent/", "r1", "hi"))
    asked = len(model.requests)
    check_attached(frames(post(client, "/agent/", "r1", "hi")), first)
    assert len(model.requests) == asked
    assert Run.objects.count() == 1


def test_a_post_attaches_to_a_run_that_goes_on(client: Client, live: None):
    first = chunks(post(client, "/agent/", "r1", "wait here"))
    next(first)
    second = chunks(post(client, "/agent/", "r1", "wait here"))
    assert parse(next(second))[0].event["type"] == "RUN_STARTED"
    GATES["here"].open()
    assert parse(b"".join(second))[-1] == parse(b"".join(first))[-1]


def test_another_body_under_a_used_run_id_is_refused(client: Client):
    frames(post(client, "/agent/", "r1", "hi"))
    assert error(post(client, "/agent/", "r1", "something else")) == (409, "run_id_reused")
    assert Run.objects.count() == 1


def test_C16_two_owners_with_one_run_id_never_meet(client: Client, stranger: Client):
    first, second = (events(post(browser, "/agent/", "r1", text)) for browser, text in [(client, "a"), (stranger, "b")])
    assert (text_of(first), text_of(second)) == ("echo a", "echo b")
    assert Run.objects.count() == 2


def test_ten_simultaneous_posts_of_one_run_execute_once(user: User, live: None):
    barrier = threading.Barrier(10)

    def run(_: int) -> list[Frame]:
        client = logged_in(user)
        barrier.wait()
        return frames(post(client, "/agent/", "r1", "hi"))

    with ThreadPoolExecutor(10) as threads:
        streams = list(threads.map(run, range(10)))
    (whole,) = [stream for stream in streams if stream[0].id]
    for stream in streams:
        check_attached(stream, whole)
    assert len(model.requests) == 1
    assert Run.objects.count() == 1


def test_scopes_part_the_runs_of_one_owner(client: Client):
    assert text_of(events(post(client, "/agent/", "r1", "a"))) == "echo a"
    assert text_of(events(post(client, "/scoped/", "r1", "b"))) == "echo b"
    assert client.get("/scoped/runs/").json()["runs"][0]["preview"] == "b"
    assert len(client.get("/agent/runs/").json()["runs"]) == 1


@pytest.mark.parametrize(
    ("query", "fields", "outcome"),
    [
        ("", {"protocolVersion": "1.0"}, {"type": "success", "pendingToolCallIds": ["call-1"]}),
        ("?protocol=1.0", {}, {"type": "success", "pendingToolCallIds": ["call-1"]}),
        ("?protocol=0.9", {}, {"type": "success"}),
        ("", {}, {"type": "success"}),
    ],
)
def test_only_a_viewer_that_declares_1_0_gets_what_breaks_older_ones(
    client: Client, query: str, fields: dict[str, str], outcome: dict[str, object]
):
    tools = [{"name": "ask", "description": "Ask the user.", "parameters": {"type": "object", "properties": {}}}]
    found = frames(post(client, f"/agent/{query}", "r1", "ask", tools=tools, **fields))
    log = frames(client.get("/agent/runs/r1/events/?protocol=1.0"))
    assert found[-1].event["outcome"] == outcome
    assert log[-1].event["outcome"] == {"type": "success", "pendingToolCallIds": ["call-1"]}
    assert [frame.id for frame in found] == [frame.id for frame in log]


def test_C26_answers_to_what_nobody_has_asked_are_refused(client: Client):
    resume = [{"interruptId": "i1", "status": "resolved"}]
    assert error(post(client, "/agent/", resume=resume)) == (422, "unknown_interrupt")
    assert error(post(client, "/agent/", messages=[], resume=resume)) == (422, "unknown_interrupt")
    assert events(post(client, "/agent/", resume=[]))[-1]["type"] == "RUN_FINISHED"


def test_a_transcript_that_asks_nothing_is_refused_before_anything_is_written(client: Client):
    answered = [user_message("hi"), {"id": "a1", "role": "assistant", "content": "hello"}]
    assert error(post(client, "/agent/", messages=answered)) == (422, "nothing_to_run")
    assert error(post(client, "/agent/", messages=[])) == (422, "nothing_to_run")
    assert not Run.objects.exists()


def test_the_run_gets_what_context_for_request_returns_and_an_allow_list_of_headers(client: Client):
    kept = []
    urls.context.does = lambda request: {"tenant": request.headers["X-Tenant"], "user": request.user.pk}
    server = urls.urlpatterns[0].url_patterns[0].callback.initkwargs["server"]
    config = server.agent_config
    object.__setattr__(config, "instructions_for_request", kept.append)
    try:
        headers = {"X-Tenant": "acme", "Accept-Language": "de", "Authorization": "Bearer s"}
        frames(post(client, "/agent/?x=1", "r1", "hi", headers=headers))
    finally:
        object.__setattr__(config, "instructions_for_request", None)
    (request,) = kept
    assert request.request_context == {"tenant": "acme", "user": request.user.pk}
    assert request.headers == {"accept-language": "de"}
    assert (request.method, request.path, request.run_id, request.thread_id) == ("POST", "/agent/", "r1", "t1")
    assert json.loads(request.body) == run_input("r1", "hi")
    assert type(request.user) is User


def test_an_anonymous_run_without_a_durable_identity_streams_and_is_never_seen_again(db: None):
    client = Client()
    assert text_of(events(post(client, "/ephemeral/", "r1", "hi"))) == "echo hi"
    assert text_of(events(post(client, "/ephemeral/", "r1", "hi"))) == "echo hi"
    assert client.get("/ephemeral/runs/").json() == {"runs": [], "next": None}
    assert error(client.get("/ephemeral/runs/r1/")) == (404, "not_found")
    assert error(post(client, "/ephemeral/resume/r1/", "r2", "more")) == (404, "not_found")
    assert not Run.objects.exists()


def test_an_anonymous_visitor_with_a_bucket_keeps_runs_in_its_session(db: None):
    visitor, another = Client(), Client()
    frames(post(visitor, "/public/", "r1", "hi"))
    assert [run["run_id"] for run in visitor.get("/public/runs/").json()["runs"]] == ["r1"]
    assert another.get("/public/runs/").json()["runs"] == []
    assert error(another.get("/public/runs/r1/")) == (404, "not_found")


def test_without_a_step_store_a_run_is_kept_and_can_be_looked_at(client: Client):
    frames(post(client, "/plain/", "r1", "hi"))
    row = client.get("/plain/runs/r1/").json()
    assert (row["status"], row["links"]) == ("finished", run_links("/plain/"))
    assert error(client.get("/plain/runs/")) == (404, "not_found")
    assert error(post(client, "/plain/resume/r1/")) == (404, "not_found")
