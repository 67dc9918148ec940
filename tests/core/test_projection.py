import json
import math
from copy import deepcopy
from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    MessagesSnapshotEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallStartEvent,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, ModelRetry, ToolReturn

from django_pydantic_agent.log.frames import REPLACEMENT, encode
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.testing.models import Failure, Reasoning, ScriptedModel, Text, ToolCall
from tests.core.drawn_streams import chunk_streams, streams
from tests.core.folding import drawn, frames_of, logged, projected, seen
from tests.core.plans import events, plan
from tests.core.streams import EARLIER, PICTURE, STARTED, STREAMS, Stream, call, result, run, text


@pytest.mark.node
@pytest.mark.parametrize("name", STREAMS)
def test_after_each_event_messages_and_state_are_those_of_the_client(client, name):
    stream = STREAMS[name]
    answers = client.answers(stream, [encode(event) for event in stream.events], every=True)
    projection = Projection(stream.messages, state=stream.state)
    for event, frames, answer in zip(stream.events, logged(stream.events), answers, strict=True):
        for frame in frames:
            projection.apply_frame(frame)
        assert answer == seen(projection), event


@pytest.mark.node
@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.older])
def test_an_older_client_makes_the_same_of_what_it_understands(client, name):
    frames = frames_of(STREAMS[name])
    assert client.answers(STREAMS[name], frames, version="0.0.59") == [seen(projected(STREAMS[name], frames))]


@pytest.mark.node
@drawn
@given(stream=streams())
def test_any_legal_run_adds_up_to_what_the_client_makes_of_it(client, stream):
    frames = frames_of(stream)
    assert client.answers(stream, frames) == [seen(projected(stream, frames))]


@pytest.mark.node
@drawn
@given(stream=chunk_streams())
def test_chunks_add_up_to_what_the_client_makes_of_them_as_long_as_it_can(client, stream):
    answers = client.answers(stream, [encode(event) for event in stream.events], every=True)
    projection = Projection(state={})
    for frames, answer in zip(logged(stream.events), answers, strict=True):
        if answer["error"] is not None:
            return
        for frame in frames:
            projection.apply_frame(frame)
        assert answer == seen(projection)


@pytest.mark.node
def test_a_run_of_the_engine_adds_up_to_what_the_client_makes_of_it(client):
    agent = Agent(
        ScriptedModel(
            [
                [Reasoning("let me think", chunk=4), Text("I look.", chunk=3), ToolCall("look"), ToolCall("plan")],
                [ToolCall("again", chunk=1)],
                [ToolCall("again")],
                [Text("half a sen", chunk=4), Failure(RuntimeError("no"))],
            ]
        )
    )

    @agent.tool_plain
    def look() -> dict[str, Any]:
        return {"seen": ["é", None, 0.5]}

    @agent.tool_plain
    def plan_() -> ToolReturn:
        return ToolReturn(
            "planned",
            metadata=[
                StateSnapshotEvent(snapshot={"steps": []}),
                StateDeltaEvent(delta=[{"op": "add", "path": "/steps/-", "value": 1}]),
                ActivitySnapshotEvent(message_id="act", activity_type="plan", content={}),
            ],
        )

    @agent.tool_plain
    def again() -> str:
        if not again_calls:
            again_calls.append(1)
            raise ModelRetry("once more")
        return "done"

    again_calls: list[int] = []
    frames = [json.dumps(event).encode() for event in events(plan(agent=agent))]
    stream = Stream([])
    answers = client.answers(stream, frames, every=True)
    assert answers == [seen(projected(stream, frames[:count])) for count in range(1, len(frames) + 1)]
    assert answers[-1]["messages"][-1]["content"] == "half a sen"


@drawn
@given(stream=streams(), every=st.integers(1, 5))
def test_changes_put_into_a_table_bring_it_up_to_date(stream, every):
    projection = Projection(stream.messages, state=stream.state)
    rows = {message["id"]: (place, message) for place, message in enumerate(stream.messages)}
    state = stream.state
    for number, frame in enumerate(frames_of(stream)):
        projection.apply_frame(frame)
        if number % every:
            continue
        changes = projection.take_changes()
        left = {message["id"] for message in projection.messages}
        rows = {message_id: row for message_id, row in rows.items() if message_id in left}
        rows |= {message["id"]: (place, message) for place, message in changes.messages}
        state = projection.state if changes.state else state
        ordered = sorted(rows.values(), key=lambda row: row[0])
        assert [message for _, message in ordered] == projection.messages
        assert state == projection.state


@drawn
@given(stream=streams(), data=st.data())
def test_what_a_projection_has_returned_stays_as_it_was(stream, data):
    given_messages, given_state = deepcopy(stream.messages), deepcopy(stream.state)
    frames = frames_of(stream)
    seq = data.draw(st.integers(1, len(frames)))
    projection = projected(stream, frames[:seq])
    returned = [projection.messages, projection.state, projection.take_changes()]
    kept = deepcopy(returned)
    for frame in frames[seq:]:
        projection.apply_frame(frame)
    assert returned == kept
    assert (stream.messages, stream.state) == (given_messages, given_state)


def test_only_what_is_new_or_changed_is_returned_with_its_place():
    projection = Projection([{**EARLIER[0], "id": f"old{n}"} for n in range(1000)], state={})
    assert projection.take_changes().messages == []
    for event in run(text("m1", "Hello"), call("c1"), text("m2", "..."), end=None):
        projection.apply_frame(encode(event))
    changes = projection.take_changes()
    assert [(place, message["id"]) for place, message in changes.messages] == [
        (1000, "u1"),
        (1001, "m1"),
        (1002, "c1"),
        (1003, "m2"),
    ]
    assert changes.size == len(json.dumps([message for _, message in changes.messages], separators=(",", ":")))
    assert not changes.state
    projection.apply_frame(encode(result("c1")))
    assert [(place, message["id"]) for place, message in projection.take_changes().messages] == [
        (1003, "result-c1"),
        (1004, "m2"),
    ]
    assert projection.take_changes().messages == []


def test_a_snapshot_changes_only_what_it_says_differently():
    projection = Projection(EARLIER, state={})
    projection.apply_frame(encode(STARTED))
    projection.take_changes()
    projection.apply_frame(
        encode(MessagesSnapshotEvent(messages=[*projection.messages[:-2], {**EARLIER[4], "content": {"n": 1}}]))
    )
    changes = projection.take_changes()
    assert changes.messages == [(4, {**EARLIER[4], "content": {"n": 1}})]
    projection.apply_frame(encode(MessagesSnapshotEvent(messages=[{**EARLIER[4], "content": {"n": True}}])))
    assert projection.take_changes().messages == [(0, EARLIER[3]), (1, {**EARLIER[4], "content": {"n": True}})]


def test_C08_C09_C13_messages_and_state_hold_what_is_on_the_wire():
    projection = Projection(state={})
    number = 2512292042121000001
    for event in (
        TextMessageStartEvent(message_id="m\0", metadata={"n": number, "rate": math.nan}),
        TextMessageContentEvent(message_id="m\0", delta="a\0"),
        TextMessageContentEvent(message_id="m\0", delta="\ud83e"),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f", parent_message_id="m\0"),
        StateSnapshotEvent(snapshot={"a\0": number, "rate": math.inf}),
        StateDeltaEvent(delta=[{"op": "add", "path": "/a\0", "value": [number, math.nan, "\ud800"]}]),
    ):
        projection.apply_frame(encode(event))
    assert projection.messages == [
        {
            "id": f"m{REPLACEMENT}",
            "role": "assistant",
            "content": f"a{REPLACEMENT * 2}",
            "metadata": {"n": number, "rate": None},
            "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
        }
    ]
    assert projection.state == {f"a{REPLACEMENT}": [number, None, REPLACEMENT], "rate": None}


def test_an_activity_stays_an_activity_whatever_a_patch_makes_of_it():
    projection = Projection(state={})
    projection.apply_frame(encode(ActivitySnapshotEvent(message_id="act", activity_type="plan", content={"n": 1})))
    for patch in (
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": "remove", "path": "/n"}, {"op": "remove", "path": ""}],
    ):
        projection.apply_frame(encode(ActivityDeltaEvent(message_id="act", activity_type="chart", patch=patch)))
    assert projection.messages == [{"id": "act", "role": "activity", "activityType": "plan", "content": {"n": 1}}]
    MessagesSnapshotEvent(messages=projection.messages)


def test_the_ids_of_all_messages_are_remembered_in_order_of_appearance():
    projection = Projection(EARLIER[:1], state={})
    for event in run(call("c1", parent_message_id="m1"), result("c1", PICTURE), MessagesSnapshotEvent(messages=[])):
        projection.apply_frame(encode(event))
    assert projection.messages == []
    assert projection.message_ids == ["u0", "u1", "m1", "result-c1"]
