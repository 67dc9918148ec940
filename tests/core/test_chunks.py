import json

import pytest
from ag_ui.core import (
    CustomEvent,
    ReasoningMessageChunkEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallChunkEvent,
)
from pydantic_ai import Agent, ToolReturn

from django_pydantic_agent.log.chunks import Chunks
from django_pydantic_agent.log.frames import encode
from django_pydantic_agent.testing.models import ScriptedModel, ToolCall
from tests.core.plans import events, plan
from tests.core.streams import STREAMS
from tests.sse import check_sequence


def expanded(*events):
    chunks = Chunks()
    return [part for event in events for part in chunks.expand(event)]


@pytest.mark.parametrize("name", ["chunks", "chunks of two subagents at once"])
def test_what_is_logged_for_chunks_is_whole(name):
    check_sequence([json.loads(encode(event)) for event in expanded(*STREAMS[name].events)])


def test_a_chunk_becomes_a_start_and_a_content_and_the_next_event_of_its_lane_the_end():
    pause = CustomEvent(name="pause", value=1)
    chunk = TextMessageChunkEvent(message_id="m", role="user", name="Ada", delta="a", timestamp=1, raw_event={"r": 1})
    assert expanded(chunk, TextMessageChunkEvent(delta="b", metadata={"k": 1}), pause) == [
        TextMessageStartEvent(message_id="m", role="user", name="Ada", timestamp=1),
        TextMessageContentEvent(message_id="m", delta="a", timestamp=1, raw_event={"r": 1}),
        TextMessageContentEvent(message_id="m", delta="b", metadata={"k": 1}),
        TextMessageEndEvent(message_id="m"),
        pause,
    ]


@pytest.mark.parametrize(
    "chunk",
    [
        TextMessageChunkEvent(delta="a"),
        ReasoningMessageChunkEvent(delta="a", subagent_run_id="s"),
        ToolCallChunkEvent(tool_call_id="c", delta="{"),
        ToolCallChunkEvent(tool_call_name="f"),
    ],
)
def test_a_chunk_that_goes_on_with_nothing_is_left_out(chunk):
    assert expanded(chunk) == []


def test_events_are_left_alone_where_there_are_no_chunks():
    event = StateSnapshotEvent(snapshot={})
    assert expanded(event)[0] is event


def test_the_chunks_that_a_tool_returns_are_logged_as_what_they_stand_for():
    agent = Agent(ScriptedModel([[ToolCall("work", id="c1")], ["done"]]))

    @agent.tool_plain
    def work() -> ToolReturn:
        return ToolReturn(
            "ok",
            metadata=[
                ToolCallChunkEvent(tool_call_id="c1", tool_call_name="inner", delta="{}"),
                TextMessageChunkEvent(message_id="m", delta="a"),
                TextMessageChunkEvent(delta="b"),
                TextMessageChunkEvent(message_id="open", delta="to the end", subagent_run_id="s"),
            ],
        )

    found = events(plan(agent=agent))
    check_sequence(found)
    assert [event["toolCallId"] for event in found if event["type"] == "TOOL_CALL_END"] == ["c1", "c1~2"]
    assert [event["delta"] for event in found if event.get("messageId") == "m" and "delta" in event] == ["a", "b"]
    assert {"type": "TEXT_MESSAGE_END", "messageId": "open", "subagentRunId": "s"} in found
