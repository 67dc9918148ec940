"""The stock AG-UI client in Node: 1.0.0, and 0.0.59 as a viewer that declares no version."""

import json
from typing import Any

import pytest

from tests.live.scripts import RECITE, Step, call, fail, script, spell, think
from tests.live.visitors import Visitor, fresh
from tests.servers import Server
from tests.stock_client import CLIENT_VERSIONS, run_agent

pytestmark = [pytest.mark.node, pytest.mark.parametrize("version", CLIENT_VERSIONS)]


def run(server: Server, visitor: Visitor, version: str, *turns: list[Step], **options: Any) -> dict[str, Any]:
    return run_agent(
        f"{server.url}/agent/",
        headers=visitor.headers,
        messages=[script(*turns)],
        thread_id=fresh("thread"),
        client_version=version,
        runId=fresh("run"),
        **options,
    )


def said(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return role and content of the messages, the content of a tool call being its name and arguments."""
    return [
        (
            message["role"],
            [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in message["toolCalls"]]
            if message.get("toolCalls")
            else message["content"],
        )
        for message in messages
    ]


def test_reasoning_parallel_tools_and_text_make_the_messages_that_were_streamed(
    uvicorn: Server, visitor: Visitor, version: str
):
    answer = run(
        uvicorn,
        visitor,
        version,
        [think("Two words."), call("quick", word="one"), call("write", text=fresh("note")), call("quick", word="two")],
        [think("And now."), spell("It is done.")],
    )
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    user, *messages = answer["messages"]
    assert user["role"] == "user"
    assert len({message["id"] for message in answer["messages"]}) == len(answer["messages"])
    roles = [message["role"] for message in messages]
    calls = [call for message in messages for call in message.get("toolCalls", ())]
    assert [call["function"]["name"] for call in calls] == ["quick", "write", "quick"]
    assert json.loads(calls[2]["function"]["arguments"]) == {"word": "two"}
    results = {message["toolCallId"]: message["content"] for message in messages if message["role"] == "tool"}
    assert [results[call["id"]] for call in calls][::2] == ["one!", "two!"]
    assert [message["content"] for message in messages if message["role"] == "reasoning"] == ["Two words.", "And now."]
    assert said(messages)[-1] == ("assistant", "It is done.")
    assert roles.index("reasoning") < roles.index("assistant") < roles.index("tool")


def test_an_error_is_an_event_and_leaves_what_was_said(uvicorn: Server, visitor: Visitor, version: str):
    answer = run(uvicorn, visitor, version, ["About to ", fail("secret-marker")])
    (result,) = answer["results"]
    assert (result["terminal"], result["error"], answer["error"], answer["warnings"]) == ("RUN_ERROR", None, None, [])
    assert said(answer["messages"])[1:] == [("assistant", "About to ")]
    assert "secret-marker" not in json.dumps(answer["events"][1:])


def test_a_tool_that_fails_is_answered_before_the_run_ends(uvicorn: Server, visitor: Visitor, version: str):
    answer = run(uvicorn, visitor, version, [call("quick", word="one"), call("boom", text="secret-marker")])
    assert (answer["results"][0]["terminal"], answer["error"], answer["warnings"]) == ("RUN_ERROR", None, [])
    calls = [call["id"] for message in answer["messages"] for call in message.get("toolCalls", ())]
    answered = [message["toolCallId"] for message in answer["messages"] if message["role"] == "tool"]
    assert sorted(calls) == sorted(answered)
    assert len(calls) == 2
    told = [event for event in answer["events"][1:] if event["type"] != "TOOL_CALL_ARGS"]
    assert "secret-marker" not in json.dumps(told)


def test_a_conversation_of_two_runs_gives_the_model_all_of_it(uvicorn: Server, visitor: Visitor, version: str):
    first, second = script([call("quick", word="one")], ["first"]), script([RECITE])
    answer = run_agent(
        f"{uvicorn.url}/agent/",
        headers=visitor.headers,
        thread_id=fresh("thread"),
        client_version=version,
        runs=[{"messages": [first], "runId": fresh("run")}, {"messages": [second], "runId": fresh("run")}],
    )
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    assert json.loads(answer["messages"][-1]["content"]) == [
        ["user-prompt", first],
        ["tool-call", "quick"],
        ["tool-return", "one!"],
        ["text", "first"],
        ["user-prompt", second],
    ]


def test_a_call_of_a_tool_that_the_client_has_is_left_to_it(uvicorn: Server, visitor: Visitor, version: str):
    tool = {"name": "paint", "description": "Paint it.", "parameters": {"type": "object", "properties": {}}}
    answer = run(uvicorn, visitor, version, ["Painting ", call("paint", colour="red")], tools=[tool])
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    assert [one["function"]["name"] for message in answer["messages"] for one in message.get("toolCalls", ())] == [
        "paint"
    ]
    finished = answer["events"][-1]
    assert ("pendingToolCallIds" in finished.get("outcome", {})) == (version == "1.0.0")


def test_what_a_run_asks_is_answered_by_a_client_that_has_come_back(uvicorn: Server, visitor: Visitor, version: str):
    note = fresh("note")
    asked = run(uvicorn, visitor, version, [call("sign", text=note)], ["signed"])
    assert (asked["ok"], asked["error"], asked["warnings"]) == (True, None, [])
    (interrupt,) = asked["events"][-1]["outcome"]["interrupts"]
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    answer = run_agent(
        f"{uvicorn.url}/agent/",
        headers=visitor.headers,
        messages=asked["messages"],
        thread_id=asked["events"][0]["threadId"],
        client_version=version,
        runId=fresh("run"),
        resume=[entry],
    )
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    assert [role for role, _ in said(answer["messages"])] == ["user", "assistant", "tool", "assistant"]
    assert said(answer["messages"])[2:] == [("tool", f"wrote {note}"), ("assistant", "signed")]
    assert visitor.user is not None
    assert [saved.text for saved in visitor.user.notes.all()] == [note]
