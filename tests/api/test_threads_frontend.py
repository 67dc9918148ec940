"""Frontend tools in threads: a run ends with calls that wait, and the client's results go on from there."""

from typing import Any

import pytest
from django.test import Client

from tests.api.agents import model
from tests.api.posting import Message, error, events
from tests.api.tabs import Tab, fresh, said

PICK = {
    "name": "pick",
    "description": "Let the user pick.",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}},
}


@pytest.fixture
def tab(client: Client) -> Tab:
    return Tab(client)


def ask(tab: Tab) -> list[str]:
    """Have the model call two frontend tools, and return the ids of the calls that wait."""
    tab.messages.append({"id": fresh("u"), "role": "user", "content": "pick"})
    found = events(tab.send(tools=[PICK]))
    tab.apply(found)
    waiting: list[str] = found[-1]["outcome"]["pendingToolCallIds"]
    assert len(waiting) == 2
    return waiting


def result(call: str, content: str) -> Message:
    return {"id": fresh("result"), "role": "tool", "toolCallId": call, "content": content}


def returned() -> list[tuple[str, str, Any]]:
    """Return the tool results that the model has seen last, as (tool, call, content)."""
    parts = [part for message in model.requests[-1] for part in message.parts if part.part_kind == "tool-return"]
    return [(part.tool_name, part.tool_call_id, part.content) for part in parts]


def test_results_go_on_with_the_turn_that_waits_for_them(tab: Tab):
    first, second = ask(tab)
    tab.messages += [result(first, "a"), result(second, "c")]
    found = tab.take(tab.send(tools=[PICK]))
    assert [event["type"] for event in found if event["type"].startswith("TOOL")] == []
    assert returned() == [("pick", "call", "a"), ("pick", "other", "c")]
    thread = tab.stored()
    assert said(thread["messages"]) == ["pick", "picked"]
    assert thread["messages"] == tab.messages
    assert tab.client.get("/talk/threads/").json()["threads"][0]["turns"] == 1
    asked = len(model.requests)
    tab.take(tab.send(tools=[PICK]))
    assert len(model.requests) > asked
    assert tab.stored("?superseded=1")["superseded"]


def test_repeated_call_ids_are_told_apart(tab: Tab):
    ask(tab)
    calls = ask(tab)
    assert calls == ["call~2", "other~2"]
    tab.messages += [result(calls[1], "d"), result(calls[0], "b")]
    tab.take(tab.send(tools=[PICK]))
    assert sorted(returned()[-2:]) == [("pick", "call", "b"), ("pick", "other", "d")]


def test_a_result_that_is_still_due_is_named(tab: Tab):
    first, second = ask(tab)
    before = tab.stored()
    response = tab.send([*tab.messages, result(first, "a")])
    assert response.json()["missing"] == [second]
    assert (response.status_code, response.json()["code"]) == (422, "answers_missing")
    assert tab.stored() == before


def test_a_new_message_gives_up_what_is_still_due_and_keeps_what_was_answered(tab: Tab):
    first, _ = ask(tab)
    tab.messages.append(result(first, "a"))
    tab.say("never mind")
    assert ("pick", "call", "a") in returned()
    assert len(returned()) == 2
    thread = tab.stored()
    assert said(thread["messages"]) == ["pick", "never mind", "echo never mind"]
    assert tab.client.get("/talk/threads/").json()["threads"][0]["turns"] == 2
    tab.say("more")
    assert ("pick", "call", "a") in returned()


def test_a_post_that_adds_nothing_to_a_turn_that_waits_shows_it_again(tab: Tab):
    ask(tab)
    asked = len(model.requests)
    again = events(tab.send(tools=[PICK]))
    assert (again[0]["type"], again[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    assert again[-1]["outcome"]["pendingToolCallIds"]
    assert len(model.requests) == asked


def test_the_second_of_two_equal_answers_runs_nothing(tab: Tab):
    first, second = ask(tab)
    other = tab.copy()
    for client in (tab, other):
        client.messages += [result(first, "a"), result(second, "c")]
    tab.take(tab.send(tools=[PICK]))
    asked, before = len(model.requests), tab.stored()
    other.take(other.send(tools=[PICK]))
    assert (len(model.requests), tab.stored()) == (asked, before)


def test_a_result_that_cannot_be_read_leaves_the_turn_waiting(tab: Tab):
    first, second = ask(tab)
    part = {"type": "image", "source": {"type": "file", "value": "f1"}}
    bad = [result(first, "a"), result(second, "c") | {"content": [part]}]
    assert error(tab.send([*tab.messages, *bad])) == (400, "invalid_input")
    tab.messages += [result(first, "a"), result(second, "c")]
    tab.take(tab.send(tools=[PICK]))
    assert said(tab.stored()["messages"]) == ["pick", "picked"]
