"""Idempotency-Key: one execution, however often and under however many run ids a post comes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_pydantic_agent.contrib.store.models import Run
from tests.api.agents import model
from tests.api.conftest import logged_in
from tests.api.posting import error, events, frames, post, text_of, user_message
from tests.attached import check_attached
from tests.sse import Frame

MORE = [user_message("more", "u2")]


def keyed(client: Client, run_id: str, *args: Any, key: str = "k", url: str = "/agent/", **fields: Any) -> Any:
    return post(client, url, run_id, *args, headers={"Idempotency-Key": key}, **fields)


@pytest.mark.parametrize("mount", ["/agent/", "/plain/", "/foreign/", "/scoped/", "/talk/", "/talk-plain/"])
def test_the_same_key_attaches_under_whatever_run_id(client: Client, mount: str):
    whole = frames(keyed(client, "r1", "hi", url=mount))
    for run_id in ("r1", "r2"):
        check_attached(frames(keyed(client, run_id, "hi", url=mount)), whole)
    assert (Run.objects.count(), len(model.requests)) == (1, 1)


def test_it_is_followed_by_the_cursor_of_the_run_that_it_names(client: Client):
    whole = frames(keyed(client, "r1", "hi"))
    headers = {"Idempotency-Key": "k", "Last-Event-ID": "r1:2"}
    assert [frame.raw for frame in frames(post(client, "/agent/", "r2", "hi", headers=headers))] == [
        frame.raw for frame in whole[2:]
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"messages": "something else"},
        {"state": {"a": 1}},
        {"thread_id": "t2"},
        {"forwardedProps": {"a": 1}},
        {"context": [{"description": "a", "value": "b"}]},
    ],
)
@pytest.mark.parametrize("mount", ["/agent/", "/talk/"])
def test_a_body_that_differs_in_more_than_its_run_id_is_refused(client: Client, mount: str, other: dict[str, Any]):
    frames(keyed(client, "r1", url=mount))
    for run_id in ("r1", "r2"):
        assert error(keyed(client, run_id, url=mount, **other)) == (409, "idempotency_key_reused")
    assert Run.objects.count() == 1


@pytest.mark.parametrize("mount", ["/agent/", "/talk/"])
def test_resume_and_fork_take_a_key_too(client: Client, mount: str):
    for run_id in ("r1", "other"):
        frames(post(client, mount, run_id, thread_id=run_id))
    last = frames(keyed(client, "r2", MORE, url=f"{mount}fork/r1/", thread_id="t2"))[-1]
    for verb in ("fork", "resume"):
        found = frames(keyed(client, "r3", MORE, url=f"{mount}{verb}/r1/", thread_id="t2"))
        assert found[-1] == last
    again = keyed(client, "r3", MORE, url=f"{mount}fork/other/", thread_id="t2")
    assert error(again) == (409, "idempotency_key_reused")
    assert error(keyed(client, "r3", MORE, url=mount, thread_id="t2")) == (409, "idempotency_key_reused")
    assert Run.objects.count() == 3


def test_keys_of_other_owners_scopes_and_mounts_never_meet(client: Client, stranger: Client):
    for browser, url in ((client, "/agent/"), (stranger, "/agent/"), (client, "/scoped/"), (client, "/exempt/")):
        assert text_of(events(keyed(browser, f"run-{url[1:-1]}", url, url=url))) == f"echo {url}"
    assert Run.objects.count() == 4


def test_another_key_is_another_run(client: Client):
    for run_id in ("r1", "r2"):
        frames(keyed(client, run_id, key=run_id))
    assert Run.objects.count() == 2


def test_a_key_under_a_run_id_of_another_post_is_refused_as_that(client: Client):
    frames(post(client, "/agent/", "r1", "hi"))
    assert error(keyed(client, "r1", "something else")) == (409, "run_id_reused")
    check_attached(frames(keyed(client, "r1", "hi")), frames(client.get("/agent/runs/r1/events/")))


@pytest.mark.parametrize("key", ["a", "x" * 255, "~ !", '"quoted"'])
def test_a_key_is_up_to_255_printable_characters(client: Client, key: str):
    frames(keyed(client, "r1", key=key))
    assert Run.objects.get().idempotency_key == key


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "ä", "\x7f"])
@pytest.mark.parametrize("url", ["/agent/", "/agent/resume/source/", "/talk/", "/ephemeral/"])
def test_any_other_key_is_refused(client: Client, key: str, url: str):
    frames(post(client, "/agent/", "source"))
    response = keyed(Client() if url == "/ephemeral/" else client, "r1", MORE, key=key, url=url)
    assert error(response) == (400, "invalid_idempotency_key")
    assert Run.objects.count() == 1


def test_who_has_no_durable_identity_starts_a_run_each_time(db: None):
    for _ in range(2):
        assert text_of(events(keyed(Client(), "r1", "hi", url="/ephemeral/"))) == "echo hi"
    assert len(model.requests) == 2


@pytest.mark.parametrize("mount", ["/agent/", "/talk/"])
def test_C22_ten_simultaneous_posts_of_ten_run_ids_execute_once(user: User, live: None, mount: str):
    barrier = threading.Barrier(10)

    def run(number: int) -> list[Frame]:
        browser = logged_in(user)
        barrier.wait()
        return frames(keyed(browser, f"r{number}", "hi", url=mount))

    with ThreadPoolExecutor(10) as threads:
        streams = list(threads.map(run, range(10)))
    (whole,) = [stream for stream in streams if stream[0].id]
    for stream in streams:
        check_attached(stream, whole)
    assert (Run.objects.count(), len(model.requests)) == (1, 1)
