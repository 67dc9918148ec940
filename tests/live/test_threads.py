"""Stock clients and one thread: no client that is behind takes anything from it."""

import json
from typing import Any

import pytest

from tests.live.scripts import RECITE, call, gate, script, spell
from tests.live.visitors import Visitor, at_once, fresh, run_input
from tests.servers import Server
from tests.sse import check_sequence, events_of, request
from tests.stock_client import CLIENT_VERSIONS, run_agent


def thread_of(server: Server, visitor: Visitor, thread_id: str) -> dict[str, Any]:
    with request("GET", f"{server.url}/talk/threads/{thread_id}/", headers=visitor.headers) as response:
        assert response.status == 200
        return response.json()


def talk(server: Server, visitor: Visitor, thread_id: str, version: str, messages: list[Any], **options: Any) -> Any:
    answer = run_agent(
        f"{server.url}/talk/",
        headers=visitor.headers,
        thread_id=thread_id,
        messages=messages,
        client_version=version,
        **options,
    )
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    return answer


def outline(messages: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(message["id"], message["role"], message.get("content")) for message in messages]


@pytest.mark.node
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_client_that_is_behind_adds_its_turn_and_hears_of_the_others(uvicorn: Server, visitor: Visitor, version: str):
    thread_id = fresh("thread")
    first, second, third = (script([spell(word)]) for word in ("one", "two", "three"))
    ahead = talk(
        uvicorn,
        visitor,
        thread_id,
        version,
        [],
        runs=[{"messages": [text]} for text in (first, second, third)],
    )
    assert [content for _, role, content in outline(ahead["messages"]) if role == "assistant"] == [
        "one",
        "two",
        "three",
    ]

    known = ahead["messages"][:2]
    last = {"id": fresh("u"), "role": "user", "content": script([RECITE])}
    behind = talk(uvicorn, visitor, thread_id, version, [*known, last])

    thread = thread_of(uvicorn, visitor, thread_id)
    assert [message["role"] for message in thread["messages"]] == ["user", "assistant"] * 4
    assert outline(thread["messages"])[:6] == outline(ahead["messages"])
    assert outline(behind["messages"]) == outline(thread["messages"])
    heard = [content for kind, content in json.loads(thread["messages"][-1]["content"])]
    assert [text for text in heard if text in ("one", "two", "three")] == ["one", "two", "three"]


@pytest.mark.parametrize(
    "posted",
    [lambda known, new: [new], lambda known, new: [*known[2:], new], lambda known, new: [*reversed(known), new]],
    ids=["only the new turn", "without the first turn", "in another order"],
)
def test_no_posture_of_a_client_shortens_the_thread(uvicorn: Server, visitor: Visitor, posted: Any):
    thread_id = fresh("thread")
    for word in ("one", "two", "three"):
        body = run_input(fresh("run"), script([spell(word)]), thread_id=thread_id)
        with visitor.send(uvicorn, body, route="talk/") as response:
            response.read()
    before = thread_of(uvicorn, visitor, thread_id)["messages"]
    new = {"id": fresh("u"), "role": "user", "content": script([spell("four")])}
    body = run_input(fresh("run"), *posted(before, new), thread_id=thread_id)
    with visitor.send(uvicorn, body, route="talk/") as response:
        check_sequence(events_of(list(response.frames())))
    after = thread_of(uvicorn, visitor, thread_id)["messages"]
    assert after[:6] == before
    assert [message["content"] for message in after[6:]] == [new["content"], "four"]


def test_twelve_posts_at_once_on_one_thread_lose_no_turn(uvicorn: Server, visitor: Visitor):
    thread_id = fresh("thread")
    words = [f"word{number}" for number in range(12)]

    def say(word: str) -> str:
        body = run_input(fresh("run"), script([spell(word)]), thread_id=thread_id)
        with visitor.send(uvicorn, body, route="talk/", timeout=60) as response:
            assert response.status == 200
            return events_of(list(response.frames()))[-1]["type"]

    assert at_once([lambda word=word: say(word) for word in words]) == ["RUN_FINISHED"] * 12
    messages = thread_of(uvicorn, visitor, thread_id)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 12
    assert sorted(message["content"] for message in messages if message["role"] == "assistant") == sorted(words)


def test_a_reload_in_mid_turn_shows_what_was_said_so_far(uvicorn: Server, visitor: Visitor, gates: Any):
    thread_id, name = fresh("thread"), fresh("gate")
    body = run_input(
        fresh("run"),
        script([spell("so far"), call("quick", word="x")], [gate(name), spell("and on")]),
        thread_id=thread_id,
    )
    with visitor.send(uvicorn, body, route="talk/") as response:
        response.until("TOOL_CALL_RESULT")
        gates.wait_reached(name)
        half = thread_of(uvicorn, visitor, thread_id)
        assert half["active_run"]["run_id"] == body["runId"]
        assert "so far" in [message.get("content") for message in half["messages"]]
        gates.open(name)
        rest = events_of(list(response.frames()))
    assert rest[-1]["type"] == "RUN_FINISHED"
    whole = thread_of(uvicorn, visitor, thread_id)
    assert whole["active_run"] is None
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant", "tool", "assistant"]
