"""A viewer of a run whose thread is deleted is let go: the run can bring nothing any more."""

import json
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.models import User

from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, post


def test_viewer_of_a_deleted_thread_is_let_go(live: None, user: User) -> None:
    stream = chunks(post(logged_in(user), "/talk/", "r1", "wait here", thread_id="t1"))
    body = next(stream)
    while b"begun" not in body:
        body += next(stream)
    assert logged_in(user).delete("/talk/threads/t1/").status_code == 204
    GATES["here"].open()
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(lambda: next(stream, b"the end"))
        try:
            assert rest.result(10) is not None
        finally:
            _let_go()


def _let_go() -> None:
    """End the stream if nobody else did, so that the test does."""
    from django_pydantic_agent.runs.engine import get_engine

    for log in [*get_engine()._recent.values(), *(run.log for run in get_engine()._live.values())]:
        log.vanish()


def test_run_queued_behind_one_in_a_deleted_thread_ends(live: None, user: User) -> None:
    first = chunks(post(logged_in(user), "/talk/", "r1", "wait here", thread_id="t1"))
    body = next(first)
    while b"begun" not in body:
        body += next(first)
    queued = chunks(
        post(logged_in(user), "/talk/", "r2", [{"id": "u2", "role": "user", "content": "b"}], thread_id="t1")
    )
    assert json.loads(next(queued).split(b"data: ")[1])["type"] == "RUN_STARTED"
    assert logged_in(user).delete("/talk/threads/t1/").status_code == 204
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(lambda: next(queued, b"the end"))
        try:
            assert rest.result(10) is not None
        finally:
            _let_go()
