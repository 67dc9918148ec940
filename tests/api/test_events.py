"""GET runs/<run>/events/, and a post that comes back: strict suffixes, preambles, and cursors that cannot be meant."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.attach import keep_fold
from django_pydantic_agent.runs.engine import get_engine
from tests.api.agents import GATES, model
from tests.api.posting import chunks, error, events, frames, parse, post, run_input, text_of
from tests.attached import added_up, check_attached
from tests.sse import Frame, check_ids, check_sequence

EVENTS = "/agent/runs/r1/events/"


def resumed(client: Client, cursor: str, url: str = EVENTS) -> Any:
    return client.get(url, headers={"Last-Event-ID": cursor})


def raw(found: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in found]


def test_the_log_comes_from_its_first_event_as_the_first_viewer_saw_it(client: Client):
    whole = frames(post(client, "/agent/", "r1", "add"))
    response = client.get(EVENTS)
    assert response["Content-Type"] == "text/event-stream"
    assert raw(frames(response)) == raw(whole)


def test_behind_every_event_comes_the_strict_rest(client: Client):
    whole = frames(post(client, "/agent/", "r1", "add"))
    for seq, frame in enumerate(whole[:-1], 1):
        assert frame.id is not None
        assert raw(frames(resumed(client, frame.id))) == raw(whole[seq:])
        assert raw(frames(client.get(f"{EVENTS}?after={seq}"))) == raw(whole[seq:])
        again = post(client, "/agent/", "r1", "add", headers={"Last-Event-ID": frame.id})
        assert raw(frames(again)) == raw(whole[seq:])
    assert len(model.requests) == 2


def test_the_header_wins_over_the_query_and_a_cursor_over_the_snapshot(client: Client):
    whole = frames(post(client, "/agent/", "r1"))
    for query in ("after=1", "after=garbage", "from=snapshot"):
        assert raw(frames(resumed(client, "r1:2", f"{EVENTS}?{query}"))) == raw(whole[2:])
    assert raw(frames(client.get(f"{EVENTS}?from=snapshot&after=3"))) == raw(whole[3:])


@pytest.mark.parametrize("run_id", ["a/b", "..", "ä 🎈", "r:1", "100%"])
def test_the_cursor_of_any_run_id_leads_back_to_its_run(client: Client, run_id: str):
    whole = frames(post(client, "/agent/", run_id))
    assert whole[1].id is not None
    found = frames(resumed(client, whole[1].id, f"/agent/runs/{encode_id(run_id)}/events/"))
    assert raw(found) == raw(whole[2:])


def test_a_snapshot_stands_for_the_log_of_an_ended_run(client: Client):
    whole = frames(post(client, "/agent/", "r1", "add"))
    found = frames(client.get(f"{EVENTS}?from=snapshot"))
    check_attached(found, whole)
    assert [frame.id for frame in found[:-1]] == [None] * (len(found) - 1)


def test_a_snapshot_in_the_middle_of_a_text_goes_on_with_what_comes(client: Client, live: None):
    first = chunks(post(client, "/agent/", "r1", "wait here"))
    seen = b""
    while b"begun" not in seen:
        seen += next(first)
    attached = chunks(client.get(f"{EVENTS}?from=snapshot"))
    opening = parse(next(attached))
    assert opening[0].event["type"] == "RUN_STARTED"
    assert added_up([frame.event for frame in opening])[0][-1]["content"] == "begun "
    GATES["here"].open()
    found = [frame for frame in [*opening, *parse(b"".join(attached))] if frame.event]
    check_attached(found, parse(seen + b"".join(first)))
    with_ids = [frame.seq for frame in found if frame.seq]
    assert with_ids == list(range(with_ids[0], with_ids[-1] + 1))


@pytest.mark.parametrize(
    "cursor",
    [
        "garbage",
        "r1",
        "r1:",
        ":1",
        "1",
        "r1:-1",
        "r1:x",
        "r1:1.0",
        "r1:1 2",
        "%ff:1",
        "r1:" + "9" * 30,
        "r1:\u0661",
        "r2:1",
    ],
)
def test_a_cursor_that_is_none_of_the_runs_is_refused(client: Client, cursor: str):
    frames(post(client, "/agent/", "r1"))
    assert error(resumed(client, cursor)) == (400, "invalid_cursor")
    assert error(post(client, "/agent/", "r1", headers={"Last-Event-ID": cursor})) == (400, "invalid_cursor")


@pytest.mark.parametrize("after", ["", "garbage", "-1", "1.5", "r2:1", "9" * 30, "0x1", "%00"])
def test_an_after_that_is_no_place_of_the_run_is_refused(client: Client, after: str):
    frames(post(client, "/agent/", "r1"))
    assert error(client.get(f"{EVENTS}?after={after}")) == (400, "invalid_cursor")


def test_from_takes_nothing_but_snapshot(client: Client):
    frames(post(client, "/agent/", "r1"))
    assert error(client.get(f"{EVENTS}?from=start")) == (400, "invalid_query")


def test_at_the_end_of_an_ended_run_nothing_is_left(client: Client):
    last = frames(post(client, "/agent/", "r1"))[-1]
    assert last.id is not None
    for response in (resumed(client, last.id), client.get(f"{EVENTS}?after={last.seq}")):
        assert (response.status_code, response.content) == (204, b"")
    response = post(client, "/agent/", "r1", headers={"Last-Event-ID": last.id})
    assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
    assert frames(response) == []


def test_ahead_of_an_ended_run_is_refused(client: Client):
    last = frames(post(client, "/agent/", "r1"))[-1]
    assert error(resumed(client, f"r1:{last.seq + 1}")) == (400, "invalid_cursor")
    headers = {"Last-Event-ID": f"r1:{last.seq + 1}"}
    assert error(post(client, "/agent/", "r1", headers=headers)) == (400, "invalid_cursor")


def test_ahead_of_a_run_that_goes_on_waits_for_what_comes_behind(client: Client, live: None):
    first = chunks(post(client, "/agent/", "r1", "wait here"))
    next(first)
    last_seq = Run.objects.get().last_seq
    ahead = chunks(resumed(client, f"r1:{last_seq + 2}"))
    GATES["here"].open()
    whole = parse(b"".join(first))
    found = parse(b"".join(ahead))
    check_ids(found, run_id="r1", after=last_seq + 2)
    assert found[-1] == whole[-1]


def test_foreign_and_unknown_runs_answer_alike(client: Client, stranger: Client):
    frames(post(client, "/agent/", "r1"))
    answers = [stranger.get(EVENTS), stranger.get("/agent/runs/r2/events/"), resumed(stranger, "r1:1")]
    assert [error(answer) for answer in answers] == [(404, "not_found")] * 3
    assert len({answer.content for answer in answers}) == 1


def test_a_visitor_without_a_durable_identity_has_nothing_to_come_back_to(db: None):
    frames(post(Client(), "/ephemeral/", "r1"))
    assert error(Client().get("/ephemeral/runs/r1/events/")) == (404, "not_found")


def test_a_mount_without_any_store_attaches_too(client: Client):
    whole = frames(post(client, "/plain/", "r1"))
    assert raw(frames(client.get("/plain/runs/r1/events/?after=2"))) == raw(whole[2:])


@pytest.mark.parametrize(("query", "is_told"), [("", False), ("&protocol=0.9", False), ("&protocol=1.0", True)])
@pytest.mark.parametrize("begin", ["after=0", "from=snapshot"])
def test_a_viewer_of_1_0_says_so_in_the_query(client: Client, begin: str, query: str, is_told: bool):
    tools = [{"name": "ask", "description": "Ask the user.", "parameters": {"type": "object", "properties": {}}}]
    frames(post(client, "/agent/", "r1", "ask", tools=tools))
    last = events(client.get(f"{EVENTS}?{begin}{query}"))[-1]
    assert ("pendingToolCallIds" in last["outcome"]) is is_told


def test_C22_attaching_writes_nothing(client: Client):
    last = frames(post(client, "/agent/", "r1"))[-1]
    with CaptureQueriesContext(connection) as queries:
        for url in (EVENTS, f"{EVENTS}?from=snapshot", f"{EVENTS}?after={last.seq}"):
            b"".join(client.get(url))
        frames(post(client, "/agent/", "r1", headers={"Last-Event-ID": "r1:1"}))
    assert {query["sql"].split()[0] for query in queries} == {"SELECT"}
    assert len(model.requests) == 1


def test_a_post_with_a_cursor_of_a_run_that_is_not_there_starts_nothing(client: Client):
    for cursor in ("r1:3", "r2:3", "r2:0"):
        response = post(client, "/agent/", "r1", headers={"Last-Event-ID": cursor})
        assert error(response) == (400, "invalid_cursor")
    assert not Run.objects.exists()


@pytest.mark.parametrize("cursor", ["r1:0", ""])
def test_a_viewer_that_has_seen_nothing_yet_may_start(client: Client, cursor: str):
    assert text_of(events(post(client, "/agent/", "r1", "hi", headers={"Last-Event-ID": cursor}))) == "echo hi"
    assert events(post(client, "/agent/?after=0", "r2", "hi"))[-1]["type"] == "RUN_FINISHED"


def test_a_cursor_does_not_excuse_another_body(client: Client):
    frames(post(client, "/agent/", "r1"))
    response = post(client, "/agent/", "r1", "something else", headers={"Last-Event-ID": "r1:2"})
    assert error(response) == (409, "run_id_reused")


def test_the_same_resume_with_a_cursor_gets_the_rest(client: Client):
    more = [{"id": "u2", "role": "user", "content": "more"}]
    frames(post(client, "/agent/", "r1"))
    whole = frames(post(client, "/agent/resume/r1/", "r2", more))
    again = post(client, "/agent/resume/r1/", "r2", more, headers={"Last-Event-ID": "r2:2"})
    assert raw(frames(again)) == raw(whole[2:])


def test_many_viewers_of_a_run_that_goes_on_see_it_whole(client: Client, live: None):
    streams = [chunks(post(client, "/agent/", "r1", "wait here"))]
    next(streams[0])
    streams += [chunks(client.get(EVENTS)) for _ in range(5)]
    GATES["here"].open()
    for stream in streams[1:]:
        found = parse(b"".join(stream))
        check_ids(found, run_id="r1")
        assert check_sequence([frame.event for frame in found])["type"] == "RUN_FINISHED"
    b"".join(streams[0])


def prune(run_id: str, *, through: int) -> None:
    """Drop the beginning of an ended run's log, as a prune that was cut short leaves it."""
    row, store = Run.objects.get(run_id=run_id), DatabaseRunStore()
    run = store.by_key(row.pk, owner=Owner(row.owner))
    assert run is not None
    keep_fold(run, store=store, conversation=DefaultConversationStore())
    log = RunLog(run=run.key, using="default")
    while log.drop(through=through, stretches=100):
        pass
    assert log.first_seq == through + 1


def test_C20_behind_a_cursor_that_is_older_than_the_log_comes_nothing_but_a_refusal(client: Client):
    whole = frames(post(client, "/agent/", "r1", "add"))
    prune("r1", through=6)
    for response in (
        client.get(EVENTS),
        resumed(client, "r1:5"),
        client.get(f"{EVENTS}?after=5"),
        post(client, "/agent/", "r1", "add", headers={"Last-Event-ID": "r1:5"}),
    ):
        assert (response.status_code, response["Content-Type"]) == (410, "application/json")
        body = response.json()
        assert (body["code"], body["snapshot_url"]) == ("cursor_expired", f"{EVENTS}?from=snapshot")
    check_attached(frames(client.get(body["snapshot_url"])), whole)
    check_attached(frames(post(client, "/agent/", "r1", "add")), whole)
    assert raw(frames(resumed(client, "r1:6"))) == raw(whole[6:])


def test_C20_a_log_that_is_dropped_whole_leaves_its_snapshot(client: Client):
    whole = frames(post(client, "/agent/", "r1", "add"))
    prune("r1", through=len(whole))
    assert resumed(client, f"r1:{len(whole) - 1}").status_code == 410
    assert resumed(client, f"r1:{len(whole)}").status_code == 204
    check_attached(frames(client.get(f"{EVENTS}?from=snapshot")), whole)


def test_C20_connecting_to_a_thread_with_such_a_cursor_brings_the_preamble(client: Client):
    whole = frames(post(client, "/talk/", "r1", "add"))
    prune("r1", through=6)
    url = "/talk/threads/t1/"
    expired = client.get(f"{url}events/", headers={"Last-Event-ID": "r1:2"})
    assert (expired.status_code, expired.json()["snapshot_url"]) == (410, "/talk/runs/r1/events/?from=snapshot")
    body = run_input("unused", [])
    answer = client.post(f"{url}connect/", body, content_type="application/json", headers={"Last-Event-ID": "r1:2"})
    check_attached(frames(answer), whole)


def test_C20_a_viewer_whose_log_is_dropped_under_it_is_sent_away_before_the_hole(client: Client, live: None):
    whole = frames(post(client, "/agent/", "r1", "add"))
    get_engine().wait()
    get_engine()._recent.clear()
    stream = client.get(f"{EVENTS}?after=2")
    prune("r1", through=6)
    found = frames(stream)
    assert [frame for frame in found if frame.id] == []
    assert resumed(client, "r1:2").status_code == 410
    assert raw(frames(resumed(client, "r1:6"))) == raw(whole[6:])
