from ag_ui.core import (
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunStartedEvent,
    StepStartedEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from django_pydantic_agent.log.closing import OpenItems
from tests.sse import check_sequence

OPENED = [
    StepStartedEvent(step_name="plan"),
    ReasoningStartEvent(message_id="r"),
    ReasoningMessageStartEvent(message_id="r"),
    TextMessageStartEvent(message_id="m"),
    ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m"),
    ToolCallArgsEvent(tool_call_id="c1", delta="{"),
]


def closed(opened, **keywords):
    items = OpenItems()
    for event in opened:
        items.observe(event)
    return list(items.closing(**keywords))


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
