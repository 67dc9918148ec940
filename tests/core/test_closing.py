from ag_ui.core import (
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunStartedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from django_pydantic_agent.log.closing import OpenItems
from django_pydantic_agent.log.frames import wire_form
from tests.sse import check_sequence

OPENED = [
    StepStartedEvent(step_name="plan"),
    ReasoningStartEvent(message_id="r"),
    ReasoningMessageStartEvent(message_id="r"),
    TextMessageStartEvent(message_id="m"),
    ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m"),
    ToolCallArgsEvent(tool_call_id="c1", delta="{"),
]


def observed(events):
    items = OpenItems()
    for event in events:
        items.observe(wire_form(event))
    return items


def closed(opened, **keywords):
    return list(observed(opened).closing(**keywords))


def test_whatever_was_opened_is_closed_in_reverse_and_each_call_gets_a_result():
    events = [RunStartedEvent(thread_id="t", run_id="r"), *OPENED, *closed(OPENED), RunErrorEvent(message="x")]
    check_sequence([event.model_dump(mode="json", by_alias=True) for event in events])
    assert [event.type.value for event in closed(OPENED)] == [
        "TOOL_CALL_END",
        "TEXT_MESSAGE_END",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "STEP_FINISHED",
        "TOOL_CALL_RESULT",
    ]


def test_nothing_is_closed_twice():
    answered = [
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="f"),
        ToolCallEndEvent(tool_call_id="c1"),
        ToolCallResultEvent(message_id="m", tool_call_id="c1", content="ok"),
    ]
    assert closed(answered) == []


def test_calls_that_wait_for_the_client_get_no_result():
    started = [ToolCallStartEvent(tool_call_id="c1", tool_call_name="f"), ToolCallEndEvent(tool_call_id="c1")]
    assert closed(started, waiting=frozenset({"c1"})) == []
    assert [event.type.value for event in closed(started)] == ["TOOL_CALL_RESULT"]


def test_what_a_subagent_opened_is_closed_in_its_name():
    opened = [
        SubagentStartedEvent(subagent_run_id="s", name="helper"),
        StepStartedEvent(step_name="plan"),
        StepStartedEvent(step_name="plan", subagent_run_id="s"),
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", subagent_run_id="s"),
    ]
    events = [RunStartedEvent(thread_id="t", run_id="r"), *opened, *closed(opened), RunErrorEvent(message="x")]
    check_sequence([event.model_dump(mode="json", by_alias=True) for event in events])
    assert [event.subagent_run_id for event in closed(opened)] == ["s", "s", None, "s", "s"]


def test_what_is_open_is_started_again_in_order_without_what_belonged_to_the_event():
    opened = [
        SubagentStartedEvent(subagent_run_id="parent", name="p"),
        SubagentStartedEvent(subagent_run_id="s", name="helper", parent_subagent_run_id="parent"),
        *OPENED,
        ToolCallStartEvent(tool_call_id="c2", tool_call_name="g", metadata={"k": 1}, timestamp=1, raw_event={}),
        ToolCallStartEvent(tool_call_id="c3", tool_call_name="g"),
        ToolCallEndEvent(tool_call_id="c3"),
    ]
    assert list(observed(opened).reopening()) == [
        *opened[:2],
        *OPENED[:5],
        ToolCallStartEvent(tool_call_id="c2", tool_call_name="g"),
    ]


def test_subagents_that_have_ended_are_told_of_because_they_may_get_children():
    events = [
        SubagentStartedEvent(subagent_run_id="parent", name="p"),
        SubagentStartedEvent(subagent_run_id="s", name="helper", parent_subagent_run_id="parent"),
        SubagentFinishedEvent(subagent_run_id="parent"),
    ]
    assert list(observed(events).reopening()) == events
    assert [event.subagent_run_id for event in closed(events)] == ["s"]


def test_nothing_is_open_after_the_end_of_a_run():
    items = observed([RunStartedEvent(thread_id="t", run_id="r"), *OPENED, RunErrorEvent(message="x")])
    assert list(items.closing()) == []
    assert list(items.reopening()) == []
