"""Leaving a run or a thread and coming back, in the process that executes it and in another."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from django_pydantic_agent.contrib.store.models import Run
from tests.attached import added_up, check_attached
from tests.live.connections import ENGINE_CONNECTIONS, held_connections
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, fail, gate, script, spell, think
from tests.live.visitors import (
    Visitor,
    at_once,
    check_complete,
    eventually,
    fresh,
    lines_of,
    read_run,
    run_input,
    text_of,
    types_of,
)
from tests.servers import Server
from tests.sse import Frame, check_ids, check_sequence, events_of, request

RECORDED = {
    "reasoning, parallel tools and text": script(
        [think("Two words."), call("quick", word="one"), call("quick", word="two")], [spell("Said.")]
    ),
    "an error": script([spell("Half a "), call("quick", word="one")], ["sentence ", fail("no more")]),
}


def messages_of(frames: Sequence[Frame], known: Sequence[Any] = (), state: Any = None) -> Any:
    """Return what a client shows that knew these messages before."""
    first = [{"type": "MESSAGES_SNAPSHOT", "messages": list(known)}] if known else []
    begun = [{"type": "STATE_SNAPSHOT", "snapshot": state}] if state is not None else []
    return added_up([*first, *begun, *events_of(frames)])


@pytest.mark.parametrize("said", RECORDED.values(), ids=RECORDED.keys())
def test_a_stream_that_is_cut_behind_any_frame_goes_on_with_the_next(
    uvicorn: Server, daphne: Server, visitor: Visitor, said: str
):
    run_id, thread_id = fresh("run"), fresh("thread")
    body = run_input(run_id, said, thread_id=thread_id)
    with visitor.send(uvicorn, body, route="talk/") as response:
        whole = read_run(response)
    check_ids(whole, run_id=run_id)
    for seq, frame in enumerate(whole, 1):
        server, cursor = (uvicorn, daphne)[seq % 2], {"Last-Event-ID": frame.id or ""}
        with (
            visitor.follow(server, run_id, mount="talk/", headers=cursor) as followed,
            visitor.follow(server, run_id, mount="talk/", query=f"protocol=1.0&after={seq}") as asked,
            visitor.send(server, body, route="talk/", headers=cursor) as posted,
        ):
            statuses = [followed.status, asked.status, posted.status]
            assert statuses == [200, 200, 200] if frame is not whole[-1] else [204, 204, 200]
            for response in (followed, asked, posted):
                assert lines_of(list(response.frames())) == lines_of(whole[seq:])
    check_attached(visitor.read(daphne, body, route="talk/"), whole)
    check_attached(visitor.read(daphne, body, route=f"talk/threads/{thread_id}/connect/"), whole)
    assert Run.objects.filter(owner=visitor.owner.key).count() == 1


@pytest.mark.parametrize("way", ["Last-Event-ID", "after", "snapshot", "connect", "post"])
@pytest.mark.parametrize("follower", ["uvicorn", "daphne"])
def test_a_viewer_that_leaves_in_the_middle_of_a_text_and_comes_back_misses_nothing(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, way: str, follower: str
):
    run_id, thread_id, held = fresh("run"), fresh("thread"), fresh("held")
    said = script([think("Well."), spell("so far "), gate(held), spell("and on")])
    body = run_input(run_id, said, thread_id=thread_id)
    with visitor.send(uvicorn, body, route="talk/") as response:
        seen: list[Frame] = []
        while text_of(seen) != "so far ":
            seen += response.until("TEXT_MESSAGE_CONTENT")
        gates.wait_reached(held)
        response.close(reset=True)
    server = uvicorn if follower == "uvicorn" else daphne
    cursor = {"Last-Event-ID": str(seen[-1].id)}
    back = {
        "Last-Event-ID": lambda: visitor.follow(server, run_id, mount="talk/", headers=cursor),
        "after": lambda: visitor.follow(server, run_id, mount="talk/", query=f"protocol=1.0&after={seen[-1].seq}"),
        "snapshot": lambda: visitor.follow(server, run_id, mount="talk/", query="protocol=1.0&from=snapshot"),
        "connect": lambda: visitor.send(server, body, route=f"talk/threads/{thread_id}/connect/"),
        "post": lambda: visitor.send(server, body, route="talk/"),
    }[way]
    with back() as again:
        if way in ("Last-Event-ID", "after"):
            gates.open(held)
            rest = read_run(again)
            check_ids(rest, run_id=run_id, after=seen[-1].seq or 0)
            seen += rest
        else:
            seen = again.until("TEXT_MESSAGE_START")
            assert added_up(events_of(seen))[0][-1]["content"] == "so far "
            gates.open(held)
            seen += again.frames()
    whole = visitor.log(daphne, run_id, mount="talk/")
    check_attached(seen, whole)
    assert gates.count(held) == 1


@pytest.mark.parametrize("what", ["text", "arguments"])
@pytest.mark.parametrize("follower", ["uvicorn", "daphne"])
def test_a_thread_and_what_follows_its_applied_seq_make_what_an_uncut_stream_makes(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, what: str, follower: str
):
    thread_id, held = fresh("thread"), fresh("held")
    server = uvicorn if follower == "uvicorn" else daphne
    visitor.run(uvicorn, fresh("run"), script(["before"]), thread_id=thread_id, route="talk/")
    run_id = fresh("run")
    turns = {
        "text": [[spell("so far "), gate(held), spell("and on")]],
        "arguments": [[spell("Writing "), call("quick", word="w" * 2000), call("hold", gate=held)], ["done"]],
    }[what]
    with visitor.post(uvicorn, run_id, script(*turns), thread_id=thread_id, route="talk/") as response:
        gates.wait_reached(held)
        half = visitor.get(server, f"talk/threads/{thread_id}/")[1]
        active = half["active_run"]
        assert active["run_id"] == run_id
        query = f"protocol=1.0&after={active['applied_seq']}"
        with visitor.follow(server, run_id, mount="talk/", query=query) as follower_stream:
            gates.open(held)
            rest = read_run(follower_stream)
        whole = list(response.frames())
    check_ids(rest, run_id=run_id, after=active["applied_seq"])
    after = visitor.get(server, f"talk/threads/{thread_id}/")[1]
    reloaded, _ = messages_of(rest, half["messages"], half["state"])
    assert reloaded == after["messages"]
    known = after["messages"][:2]
    assert messages_of(whole, known)[0] == after["messages"]


def test_a_thread_is_followed_in_another_process_across_its_runs(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper
):
    thread_id, held = fresh("thread"), fresh("held")
    first, second, third = (fresh("run") for _ in range(3))
    url = f"{daphne.url}/talk/threads/{thread_id}/events/?protocol=1.0"
    with visitor.post(
        uvicorn, first, script(["so far ", gate(held), "and on"]), thread_id=thread_id, route="talk/"
    ) as one:
        gates.wait_reached(held)
        with request("GET", url, headers=visitor.headers) as follower:
            seen = follower.until("TEXT_MESSAGE_START")
            gates.open(held)
            one.read()
            seen += follower.until("RUN_FINISHED")
            for run_id, server in ((second, uvicorn), (third, daphne)):
                posted = visitor.run(server, run_id, script([run_id]), thread_id=thread_id, route="talk/")
                found = follower.until("RUN_FINISHED")
                assert lines_of(found) == lines_of(posted)
                check_ids([frame for frame in found if frame.event], run_id=run_id)
                seen += found
            assert added_up(events_of(seen))[0] == visitor.get(daphne, f"talk/threads/{thread_id}/")[1]["messages"]
    cursor = {"Last-Event-ID": f"{second}:2"}
    with request("GET", url, headers=visitor.headers | cursor) as follower:
        found = follower.until("RUN_FINISHED") + follower.until("RUN_FINISHED")
        log = visitor.log(daphne, second, mount="talk/")[2:] + visitor.log(daphne, third, mount="talk/")
        assert lines_of(found) == lines_of(log)


def test_C05_following_an_idle_thread_holds_little_and_ends_with_its_viewer(daphne: Server, visitor: Visitor):
    thread_id = fresh("thread")
    visitor.run(daphne, fresh("run"), script(["hello"]), thread_id=thread_id, route="talk/")
    url = f"{daphne.url}/talk/threads/{thread_id}/events/"

    def tasks() -> int:
        with request("GET", f"{daphne.url}/tasks/") as response:
            number: int = response.json()["django"]
        return number

    before = tasks()
    viewers = [request("GET", url, headers=visitor.headers) for _ in range(20)]
    for viewer in viewers:
        assert types_of(viewer.until("RUN_FINISHED"))[0] == "RUN_STARTED"
    eventually(lambda: held_connections() <= ENGINE_CONNECTIONS)
    assert tasks() >= before + len(viewers)
    for viewer in viewers:
        viewer.close(reset=True)
    eventually(lambda: tasks() <= before)


@pytest.mark.parametrize("canceller", ["uvicorn", "daphne"])
def test_C21_a_run_is_stopped_from_a_third_connection_while_one_of_two_followers_leaves(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, canceller: str
):
    run_id, held = fresh("run"), fresh("held")
    body = run_input(run_id, script(["so far ", call("hold", gate=held)], ["never"]))
    with visitor.send(uvicorn, body) as response:
        response.until("TOOL_CALL_END")
        gates.wait_reached(held)
        response.close(reset=True)
    assert visitor.row(run_id).status == "running"
    server = uvicorn if canceller == "uvicorn" else daphne
    with visitor.follow(daphne, run_id) as staying, visitor.follow(uvicorn, run_id) as leaving:
        frames = staying.until("TOOL_CALL_END")
        leaving.until("TOOL_CALL_END")
        leaving.close()
        assert visitor.row(run_id).status == "running"
        statuses = [cancel(server, visitor, run_id) for _ in range(3)]
        frames += staying.frames()
    assert {status for status, _ in statuses} <= {200, 202}
    assert frames[-1].event is not None
    assert frames[-1].event["outcome"] == {"type": "cancelled"}
    check_sequence(events_of(frames))
    assert visitor.ended(run_id).status == "cancelled"
    assert cancel(daphne, visitor, run_id) == (200, "cancelled")
    assert text_of(visitor.log(daphne, run_id)) == "so far "


def cancel(server: Server, visitor: Visitor, run_id: str) -> tuple[int, str]:
    url = f"{server.url}/agent/runs/{run_id}/cancel/"
    with request("POST", url, headers=visitor.headers) as response:
        return response.status, json.loads(response.read())["status"]


def test_C22_ten_posts_of_ten_run_ids_under_one_key_in_two_processes_execute_once(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper
):
    note, key = fresh("note"), {"Idempotency-Key": fresh("key")}
    said = {"id": fresh("u"), "role": "user", "content": script([call("write", text=note)], ["done"])}

    def post(index: int) -> list[Frame]:
        body = run_input(fresh("run"), said)
        return visitor.read((uvicorn, daphne)[index % 2], body, headers=key)

    answers = at_once([partial(post, index) for index in range(10)])
    run = Run.objects.get(owner=visitor.owner.key)
    whole = visitor.log(daphne, run.run_id)
    check_complete(visitor, run.run_id, whole)
    for frames in answers:
        check_attached(frames, whole)
    assert gates.count(note) == 1
