"""Following a thread across its runs, and connecting to the one that it is at."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from django_pydantic_agent.contrib.store.models import Run
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, error, events, frames, parse, post, run_input
from tests.api.tabs import Tab, said
from tests.attached import added_up
from tests.sse import Frame, check_ids, check_sequence

EVENTS, CONNECT = "/talk/threads/t1/events/", "/talk/threads/t1/connect/"


class Follower:
    """A viewer of a stream that may never end; `seen` is what it was shown, without the comments."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self._chunks: Iterator[bytes] = chunks(response)
        self.seen: list[Frame] = []

    def until(self, *types: str) -> list[Frame]:
        """Read until events of these types have come one after the other; return the frames that were read."""
        read: list[Frame] = []
        wanted = list(types)
        while wanted:
            for frame in parse(next(self._chunks)):
                if frame.event is not None:
                    read.append(frame)
                    if wanted and frame.event["type"] == wanted[0]:
                        wanted.pop(0)
        self.seen += read
        return read

    def rest(self) -> list[Frame]:
        found = [frame for frame in parse(b"".join(self._chunks)) if frame.event is not None]
        self.seen += found
        return found


def connect(client: Client, url: str = CONNECT, **options: Any) -> Any:
    return client.post(url, run_input("unused", []), content_type="application/json", **options)


def transcript(found: Sequence[Frame]) -> list[str]:
    return said(added_up([frame.event for frame in found if frame.event])[0])


@pytest.fixture
def tab(client: Client) -> Tab:
    return Tab(client)


def test_a_thread_is_followed_from_the_run_it_is_at_to_each_that_comes(tab: Tab, user: User, live: None):
    first = chunks(tab.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r1"))
    assert any(b"begun" in chunk for chunk in first)
    follower = Follower(logged_in(user).get(EVENTS))
    opening = follower.until("MESSAGES_SNAPSHOT")
    assert (opening[0].event["type"], opening[0].event["runId"]) == ("RUN_STARTED", "r1")
    GATES["here"].open()
    b"".join(first)
    follower.until("RUN_FINISHED")
    for number in (2, 3):
        posted = [frame for frame in parse(b"".join(chunks(next_turn(tab, number)))) if frame.event]
        found = follower.until("RUN_FINISHED")
        assert [frame.raw for frame in found] == [frame.raw for frame in posted]
    assert transcript(follower.seen) == said(tab.stored()["messages"])
    follower.response.close()


def next_turn(tab: Tab, number: int) -> Any:
    known = tab.stored()["messages"]
    return tab.send([*known, {"id": f"u{number}", "role": "user", "content": f"turn {number}"}], run_id=f"r{number}")


def test_queued_turns_are_shown_in_the_order_of_their_acceptance(tab: Tab, user: User, live: None):
    streams = []
    for number, text in enumerate(["wait here", "second", "third"], 1):
        messages = [{"id": f"u{number}", "role": "user", "content": text}]
        streams.append(chunks(tab.send(messages, run_id=f"r{number}")))
        next(streams[-1])
    follower = Follower(logged_in(user).get(EVENTS))
    GATES["here"].open()
    follower.until("RUN_FINISHED", "RUN_FINISHED", "RUN_FINISHED")
    started = [frame.event["runId"] for frame in follower.seen if frame.event["type"] == "RUN_STARTED"]
    assert started == ["r1", "r2", "r3"]
    follower.response.close()
    for stream in streams:
        b"".join(stream)


def test_a_cursor_brings_the_rest_of_its_run_and_then_the_next_ones(tab: Tab, live: None):
    whole = [frames(next_turn_of_two(tab, number)) for number in (1, 2, 3)]
    cursor = whole[0][2].id
    for response in (
        tab.client.get(EVENTS, headers={"Last-Event-ID": cursor}),
        tab.client.get(f"{EVENTS}?after={cursor}"),
    ):
        follower = Follower(response)
        found = follower.until("RUN_FINISHED", "RUN_FINISHED", "RUN_FINISHED")
        expected = [*whole[0][3:], *whole[1], *whole[2]]
        assert [frame.raw for frame in found] == [frame.raw for frame in expected]
        response.close()


def next_turn_of_two(tab: Tab, number: int) -> Any:
    return (
        next_turn(tab, number)
        if number > 1
        else tab.send([{"id": "u1", "role": "user", "content": "turn 1"}], run_id="r1")
    )


def test_at_the_end_of_an_ended_run_a_thread_waits_for_its_next(tab: Tab, user: User, live: None):
    last = frames(next_turn_of_two(tab, 1))[-1]
    response = logged_in(user).get(EVENTS, headers={"Last-Event-ID": last.id})
    assert response.status_code == 200
    follower = Follower(response)
    posted = frames(next_turn(tab, 2))
    check_ids(follower.until("RUN_FINISHED"), run_id="r2")
    assert [frame.raw for frame in follower.seen] == [frame.raw for frame in posted]
    response.close()


def test_a_run_that_replaces_an_answer_begins_with_what_the_thread_is_then(tab: Tab, user: User, live: None):
    frames(next_turn_of_two(tab, 1))
    follower = Follower(logged_in(user).get(EVENTS))
    follower.until("RUN_FINISHED")
    frames(tab.send([{"id": "u1", "role": "user", "content": "turn 1"}], run_id="again"))
    found = follower.until("RUN_FINISHED")
    check_sequence([frame.event for frame in found])
    assert transcript(follower.seen) == said(tab.stored()["messages"]) == ["turn 1", "echo turn 1"]
    follower.response.close()


def test_following_ends_with_the_thread(tab: Tab, user: User, live: None):
    frames(next_turn_of_two(tab, 1))
    follower = Follower(logged_in(user).get(EVENTS))
    follower.until("RUN_FINISHED")
    assert tab.client.delete(tab.url).status_code == 204
    assert follower.rest() == []


def test_an_attach_and_a_deletion_at_once_leave_a_stream_that_ends(tab: Tab, user: User, live: None):
    stream = chunks(tab.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r1"))
    assert any(b"begun" in chunk for chunk in stream)
    viewer = logged_in(user)
    followers = [Follower(viewer.get("/talk/runs/r1/events/")), Follower(viewer.get(EVENTS))]
    assert tab.client.delete(tab.url).status_code == 204
    for follower in followers:
        follower.rest()
    b"".join(stream)
    assert error(viewer.get("/talk/runs/r1/events/")) == (404, "not_found")
    assert error(viewer.get(EVENTS)) == (404, "not_found")


@pytest.mark.parametrize("cursor", ["garbage", "r1:-1", "r9:1", "other:1", "1", "r1:99"])
def test_a_cursor_of_no_run_of_the_thread_is_refused(tab: Tab, cursor: str):
    frames(next_turn_of_two(tab, 1))
    frames(post(tab.client, "/talk/", "other", thread_id="t2"))
    assert error(tab.client.get(EVENTS, headers={"Last-Event-ID": cursor})) == (400, "invalid_cursor")
    assert error(tab.client.get(f"{EVENTS}?after={cursor}")) == (400, "invalid_cursor")


def test_foreign_and_unknown_threads_answer_alike(tab: Tab, stranger: Client):
    frames(next_turn_of_two(tab, 1))
    answers = [
        stranger.get(EVENTS),
        stranger.get("/talk/threads/t2/events/"),
        tab.client.get("/talk/threads/t2/events/"),
    ]
    answers.append(stranger.get(EVENTS, headers={"Last-Event-ID": "r1:1"}))
    assert [error(answer) for answer in answers] == [(404, "not_found")] * 4
    assert len({answer.content for answer in answers}) == 1
    streams = [
        connect(stranger),
        connect(stranger, "/talk/threads/t2/connect/"),
        connect(tab.client, "/talk/threads/~/connect/"),
    ]
    for stream in streams:
        assert (stream.status_code, stream["Content-Type"]) == (200, "text/event-stream")
        assert frames(stream) == []


def test_connecting_to_an_idle_thread_shows_its_last_run(tab: Tab):
    for number in (1, 2):
        whole = frames(next_turn_of_two(tab, number))
    found = frames(connect(tab.client))
    assert [frame.event["type"] for frame in found][:1] == ["RUN_STARTED"]
    assert found[0].event["runId"] == "r2"
    assert (found[-1].id, found[-1].event) == (whole[-1].id, whole[-1].event)
    check_sequence([frame.event for frame in found])
    assert transcript(found) == said(tab.stored()["messages"])


def test_connecting_to_a_running_thread_goes_on_to_the_end_of_the_run(tab: Tab, user: User, live: None):
    stream = chunks(tab.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r1"))
    assert any(b"begun" in chunk for chunk in stream)
    follower = Follower(connect(logged_in(user)))
    follower.until("TEXT_MESSAGE_START")
    assert transcript(follower.seen) == ["wait here", "begun "]
    GATES["here"].open()
    follower.rest()
    b"".join(stream)
    check_sequence([frame.event for frame in follower.seen])
    assert transcript(follower.seen) == ["wait here", "begun ended"]


def test_connecting_with_a_cursor_brings_the_rest(tab: Tab):
    whole = frames(next_turn_of_two(tab, 1))
    found = frames(connect(tab.client, headers={"Last-Event-ID": "r1:2"}))
    assert [frame.raw for frame in found] == [frame.raw for frame in whole[2:]]
    assert frames(connect(tab.client, headers={"Last-Event-ID": whole[-1].id})) == []
    for cursor in ("garbage", "r2:1", f"r1:{len(whole) + 1}"):
        assert error(connect(tab.client, headers={"Last-Event-ID": cursor})) == (400, "invalid_cursor")


@pytest.mark.parametrize("thread", ["t1", "unknown"])
@pytest.mark.parametrize("body", ["garbage", "{}", "[]"])
def test_connecting_takes_a_run_agent_input_and_nothing_else(tab: Tab, thread: str, body: str):
    frames(next_turn_of_two(tab, 1))
    url = f"/talk/threads/{thread}/connect/"
    assert error(tab.client.post(url, body, content_type="application/json")) == (400, "invalid_input")
    assert error(tab.client.post(url, body, content_type="text/plain")) == (415, "unsupported_media_type")


def test_coming_to_a_thread_writes_nothing(tab: Tab):
    frames(next_turn_of_two(tab, 1))
    with CaptureQueriesContext(connection) as queries:
        frames(connect(tab.client))
        follower = Follower(tab.client.get(EVENTS))
        follower.until("RUN_FINISHED")
    assert {query["sql"].split()[0] for query in queries} == {"SELECT"}
    assert Run.objects.count() == 1


def test_without_a_conversation_store_there_is_nothing_to_follow(client: Client):
    assert error(client.get("/agent/threads/t1/events/")) == (404, "not_found")
    assert error(connect(client, "/agent/threads/t1/connect/")) == (404, "not_found")


def test_a_client_whose_turn_is_going_is_shown_it_self_contained(tab: Tab, user: User, live: None):
    stream = chunks(tab.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r1"))
    assert any(b"begun" in chunk for chunk in stream)
    other = Tab(logged_in(user))
    attached = Follower(other.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r2"))
    attached.until("TEXT_MESSAGE_START")
    cursor = attached.seen[-1].id
    headers = {"Last-Event-ID": cursor}
    again = Follower(other.send([{"id": "u1", "role": "user", "content": "wait here"}], run_id="r3", headers=headers))
    GATES["here"].open()
    attached.rest()
    b"".join(stream)
    check_sequence([frame.event for frame in attached.seen])
    assert transcript(attached.seen) == ["wait here", "begun ended"]
    position = attached.seen.index(next(frame for frame in attached.seen if frame.id == cursor))
    assert [frame.raw for frame in again.rest()] == [frame.raw for frame in attached.seen[position + 1 :]]
    assert events(tab.client.get("/talk/runs/r1/events/"))[-1]["type"] == "RUN_FINISHED"


def test_following_an_idle_thread_ends_with_the_login(tab: Tab, user: User, live: None, settings: Settings):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    frames(next_turn_of_two(tab, 1))
    browser = logged_in(user)
    follower = Follower(browser.get(EVENTS))
    follower.until("RUN_FINISHED")
    browser.logout()
    assert follower.rest() == []
