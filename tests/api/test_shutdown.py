"""What a process answers that is about to end, and what the server's lifespan does."""

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User

from django_ag_ui import with_lifespan
from django_pydantic_agent.exceptions import ShuttingDown
from django_pydantic_agent.runs.engine import get_engine, shut_down_engine
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, error, events, parse, post
from tests.core.plans import plan, start


def test_no_run_begins_in_a_process_that_is_about_to_end(live: None, user: User):
    client = logged_in(user)
    whole = events(post(client, "/agent/", "r1", "hello"))
    get_engine().shut_down(0)
    response = post(client, "/agent/", "r2", "hello")
    assert error(response) == (503, "shutting_down")
    assert response["Retry-After"] == "1"
    assert client.get("/agent/runs/r2/").status_code == 404
    assert client.get("/agent/runs/r1/").json()["last_seq"] == len(whole)


def test_a_viewer_sees_how_a_run_ends_for_which_the_process_waits(live: None, user: User):
    stream = chunks(post(logged_in(user), "/agent/", "r1", "wait here"))
    seen = [next(stream)]
    while b"begun" not in seen[-1]:
        seen.append(next(stream))
    engine = get_engine()
    engine.watcher.close()
    GATES["here"].open()
    engine.shut_down(30)
    assert parse(b"".join([*seen, *stream]))[-1].event["type"] == "RUN_FINISHED"


@pytest.mark.anyio
async def test_the_lifespan_begins_to_look_after_runs_and_ends_with_a_shutdown(live: None):
    passed = []

    async def application(scope, receive, send):
        passed.append(scope["type"])
        await send({"type": "http.response.body"})

    wrapped = with_lifespan(application)
    server = ApplicationCommunicator(wrapped, {"type": "lifespan"})
    await server.send_input({"type": "lifespan.startup"})
    assert await server.receive_output() == {"type": "lifespan.startup.complete"}
    request = ApplicationCommunicator(wrapped, {"type": "http"})
    assert await request.receive_output() == {"type": "http.response.body"}
    assert passed == ["http"]
    await server.send_input({"type": "lifespan.shutdown"})
    assert await server.receive_output() == {"type": "lifespan.shutdown.complete"}
    await server.wait()
    with pytest.raises(ShuttingDown):
        start(plan())
    assert shut_down_engine()
