import json
import math

import pytest
from ag_ui.core import (
    CustomEvent,
    MessagesSnapshotEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    ToolCallResultEvent,
    UserMessage,
)

from django_pydantic_agent.log.frames import REPLACEMENT, bounded, encode, storable, wire_form


@pytest.mark.parametrize(
    "value",
    ["plain", "é🦊", "a\0b", "\ud800", "\\u0000", "line\nbreak\r\n", "\u2028\u2029", '"quotes"', "</script>", ""],
)
def test_a_frame_is_one_line_of_json_in_utf8_that_holds_the_storable_text(value):
    frame = encode(TextMessageContentEvent(message_id="m", delta=value))
    assert b"\n" not in frame
    assert b"\r" not in frame
    assert json.loads(frame)["delta"] == storable(value)


def test_null_fields_are_left_out_and_null_data_is_kept():
    frame = json.loads(encode(StateSnapshotEvent(snapshot={"gone": None, "kept": 1})))
    assert frame == {"type": "STATE_SNAPSHOT", "snapshot": {"gone": None, "kept": 1}}


def test_field_names_are_those_of_the_wire_however_odd_the_text_is():
    messages = [UserMessage(id="1", content="a\0")]
    frame = json.loads(encode(MessagesSnapshotEvent(messages=messages)))
    assert frame["messages"] == [{"id": "1", "role": "user", "content": f"a{REPLACEMENT}"}]
    snapshot = json.loads(encode(ToolCallResultEvent(message_id="m", tool_call_id="c", content="\ud800")))
    assert snapshot == {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": REPLACEMENT}


def test_C08_keys_are_made_storable_too():
    frame = json.loads(encode(StateSnapshotEvent(snapshot={"a\0": ["\ud800"]})))
    assert frame["snapshot"] == {f"a{REPLACEMENT}": [REPLACEMENT]}


@pytest.mark.parametrize("odd", ["", "\0"], ids=["fast path", "slow path"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_C09_what_json_has_no_number_for_becomes_null(number, odd):
    frame = encode(CustomEvent(name="rate", value={"n": [number], "odd": odd}))
    value = json.loads(frame, parse_constant=pytest.fail)["value"]
    assert value["n"] == [None]


@pytest.mark.parametrize("odd", ["", "\0"], ids=["fast path", "slow path"])
def test_C13_integers_keep_every_digit(odd):
    frame = encode(CustomEvent(name="order", value={"id": 2512292042121000001, "odd": odd}))
    assert b"2512292042121000001" in frame


def test_only_results_over_the_limit_are_shortened(settings):
    settings.DJANGO_PYDANTIC_AGENT = {"MAX_RESULT_BYTES": 10}
    short = ToolCallResultEvent(message_id="m", tool_call_id="c", content="x" * 10)
    assert bounded(short) is short
    long = ToolCallResultEvent(message_id="m", tool_call_id="c", content="é" * 6)
    assert bounded(long).content == "é" * 5 + "\n[shortened: the first 10 of 12 bytes]"
    text = TextMessageContentEvent(message_id="m", delta="x" * 100)
    assert bounded(text) is text


def test_C08_C09_C13_messages_and_data_can_be_had_as_they_are_on_the_wire():
    assert wire_form(UserMessage(id="1", content="a\0")) == {"id": "1", "role": "user", "content": f"a{REPLACEMENT}"}
    data = {"a\0": ["\ud800", math.nan, None], "n": 2512292042121000001}
    assert wire_form(data) == {f"a{REPLACEMENT}": [REPLACEMENT, None, None], "n": 2512292042121000001}
