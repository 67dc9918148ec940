"""Clients that come back by themselves: TanStack's and the browser's EventSource."""

from collections.abc import Sequence
from typing import Any

import pytest

from django_pydantic_agent.contrib.store.models import Run
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, script, spell, think
from tests.live.visitors import Visitor, fresh
from tests.servers import Server
from tests.stock_client import run_script

# What a client makes of the wire is the same on every database.
pytestmark = [pytest.mark.node, pytest.mark.sqlite]

Act = dict[str, Any]


def chat(server: Server, visitor: Visitor, thread_id: str, *acts: Act, cuts: Sequence[Any] = ()) -> Any:
    job = {
        "url": f"{server.url}/talk/",
        "headers": visitor.headers,
        "threadId": thread_id,
        "acts": acts,
        "cuts": cuts,
    }
    answer = run_script("tanstack.mjs", job)
    assert answer["error"] is None
    return answer


def spoken(messages: Sequence[Any]) -> list[str]:
    """Return what TanStack's client shows, user and assistant in turn."""
    return ["".join(part["content"] for part in one["parts"] if part["type"] == "text") for one in messages]


def contents(messages: Sequence[Any]) -> list[str]:
    return [message["content"] for message in messages]


def test_reload_of_tanstack_regenerates_the_last_answer_and_keeps_the_old_one(uvicorn: Server, visitor: Visitor):
    thread_id = fresh("thread")
    said = [script(["one"]), script(["two"])]
    answer = chat(uvicorn, visitor, thread_id, {"send": said[0]}, {"send": said[1]}, {"reload": True})
    thread = visitor.get(uvicorn, f"talk/threads/{thread_id}/?superseded=1")[1]
    assert contents(thread["messages"]) == [said[0], "one", said[1], "two"] == spoken(answer["messages"])
    (replaced,) = thread["superseded"]
    assert contents(replaced["messages"]) == ["two"]
    assert replaced["messages"][0]["id"] != thread["messages"][-1]["id"]
    assert Run.objects.filter(owner=visitor.owner.key).count() == 3


def test_an_edit_in_tanstack_is_answered_in_place_of_what_was_said_before(uvicorn: Server, visitor: Visitor):
    thread_id = fresh("thread")
    said = [script(["one"]), script(["two"]), script(["three"])]
    answer = chat(uvicorn, visitor, thread_id, {"send": said[0]}, {"send": said[1]}, {"edit": said[2]})
    thread = visitor.get(uvicorn, f"talk/threads/{thread_id}/?superseded=1")[1]
    assert contents(thread["messages"]) == [said[0], "one", said[2], "three"] == spoken(answer["messages"])
    (replaced,) = thread["superseded"]
    assert contents(replaced["messages"]) == [said[1], "two"]


def test_tanstack_that_is_cut_posts_again_and_gets_the_strict_rest(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper
):
    run = fresh("run")
    said = script([think("Well."), call("tally", run=run)], [spell("Größe")])
    cuts = [{"whole": 3, "inside": True}, {"whole": 1, "inside": True}, {"whole": 5}, {"whole": 1000}]
    answer = chat(uvicorn, visitor, fresh("thread"), {"send": said}, cuts=cuts)
    assert spoken(answer["messages"]) == [said, "", "Größe"]
    (row,) = Run.objects.filter(owner=visitor.owner.key)
    first, *again = answer["posts"]
    assert [post["lastEventId"] for post in again] == [f"{row.run_id}:{seq}" for seq in (3, 4, 9)]
    assert {post["body"] for post in again} == {first["body"]}
    arrived = [*range(1, 5), *range(4, 6), *range(5, 10), *range(10, row.last_seq + 1)]
    assert answer["ids"] == [f"{row.run_id}:{seq}" for seq in arrived]
    assert gates.count(run) == 1


def test_an_event_source_comes_back_behind_what_it_has_and_stops_at_the_end(uvicorn: Server, visitor: Visitor):
    run_id = fresh("run")
    whole = visitor.run(uvicorn, run_id, script([spell("Größe")]))
    url = f"{uvicorn.url}/agent/runs/{run_id}/events/?protocol=1.0"
    job = {"url": url, "headers": visitor.headers, "cut": {"whole": 3, "inside": True}}
    answer = run_script("event_source.mjs", job)
    assert [one["id"] for one in answer["events"]] == [frame.id for frame in whole]
    assert [one["event"] for one in answer["events"]] == [frame.event for frame in whole]
    assert answer["requests"] == [
        {"lastEventId": None, "status": 200},
        {"lastEventId": whole[2].id, "status": 200},
        {"lastEventId": whole[-1].id, "status": 204},
    ]
