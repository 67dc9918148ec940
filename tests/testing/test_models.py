import asyncio
import json
import threading

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, ThinkingPart, ToolCallPart

from django_pydantic_agent.testing.models import Failure, Gate, Pause, Reasoning, ScriptedModel, Text, ToolCall


def stream(model: ScriptedModel, prompt: str = "go") -> list[object]:
    """Run an agent on the model and return its part events, as the parts they start and the deltas they add."""

    async def main() -> list[object]:
        found: list[object] = []
        async with agent.run_stream_events(prompt, model=model) as events:
            async for event in events:
                if isinstance(event, PartStartEvent):
                    found.append(event.part)
                elif isinstance(event, PartDeltaEvent):
                    delta = event.delta
                    found.append(getattr(delta, "content_delta", None) or getattr(delta, "args_delta", None))
        return found

    agent = Agent()
    agent.tool_plain(double)
    return asyncio.run(main())


def double(number: int) -> int:
    return 2 * number


def test_a_turn_streams_reasoning_text_and_parallel_calls_in_deltas():
    script = [
        [
            Reasoning("hmm", 2),
            Text("ab", 1),
            ToolCall("double", {"number": 1}),
            ToolCall("double", '{"number": 21}', chunk=7),
        ],
        lambda messages: [str(sum(part.content for part in messages[-1].parts))],
    ]
    parts = stream(ScriptedModel(script))
    assert [type(part) for part in parts] == [
        ThinkingPart,
        str,
        TextPart,
        str,
        ToolCallPart,
        str,
        ToolCallPart,
        str,
        str,
        TextPart,
    ]
    assert [part for part in parts if isinstance(part, str)] == ["m", "b", '{"number": 1}', '{"numbe', 'r": 21}']
    assert parts[-1].content == "44"


def test_call_ids_are_the_same_each_time_and_differ_within_a_conversation():
    script = [
        [ToolCall("double", {"number": 1}), ToolCall("double", {"number": 2})],
        [ToolCall("double", {"number": 3}, id="mine")],
        ["done"],
    ]

    def ids() -> list[str]:
        return [part.tool_call_id for part in stream(ScriptedModel(script)) if isinstance(part, ToolCallPart)]

    assert ids() == ids() == ["call-0-0", "call-0-1", "mine"]


def test_a_run_without_streaming_gives_the_same_parts():
    script = [[Reasoning("hm"), "first", ToolCall("double", {"number": 2})], ["second"]]
    agent = Agent(ScriptedModel(script))
    agent.tool_plain(double)
    result = asyncio.run(agent.run("go"))
    assert result.output == "second"
    assert [part.content for part in result.all_messages()[1].parts[:2]] == ["hm", "first"]
    assert json.loads(result.all_messages()[1].parts[2].args) == {"number": 2}


def test_each_prompt_starts_the_script_again_and_may_choose_it():
    model = ScriptedModel(lambda prompt: [[f"You said {prompt}."]])
    agent = Agent(model)
    first = asyncio.run(agent.run("one"))
    assert first.output == "You said one."
    second = asyncio.run(agent.run("two", message_history=first.all_messages()))
    assert second.output == "You said two."
    assert [len(messages) for messages in model.requests] == [1, 3]


def test_a_failure_comes_after_what_stands_before_it():
    with pytest.raises(ConnectionError, match="gone"):
        stream(ScriptedModel([["so far", Failure(ConnectionError("gone"))]]))


def test_a_script_that_is_too_short_or_cannot_be_streamed_says_so():
    with pytest.raises(AssertionError, match="the script has 1 turns, and turn 2 was asked for"):
        stream(ScriptedModel([[ToolCall("double", {"number": 1})]]))
    with pytest.raises(AssertionError, match="must follow each other"):
        stream(ScriptedModel([["a", Reasoning("b"), "c"]]))


def test_a_gate_holds_the_model_until_it_is_opened():
    gate, parts = Gate(), []
    run = threading.Thread(target=lambda: parts.extend(stream(ScriptedModel([["before ", gate, Pause(0), "after"]]))))
    run.start()
    gate.wait_reached()
    assert parts == []
    gate.open()
    gate.open()
    run.join(30)
    assert [getattr(part, "content", part) for part in parts] == ["before ", "after"]


def test_a_gate_that_nobody_opens_or_reaches_times_out():
    with pytest.raises(TimeoutError):
        Gate().arrive_blocking(0.01)
    with pytest.raises(TimeoutError, match="nobody arrived"):
        Gate().wait_reached(0.01)


def test_a_cancelled_model_leaves_the_gate_to_others():
    async def main() -> None:
        waiting = asyncio.create_task(gate.arrive())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    gate = Gate()
    asyncio.run(main())
    gate.open()
    gate.arrive_blocking(1)


def test_deltas_are_spaced_by_the_delay(monkeypatch):
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("django_pydantic_agent.testing.models.asyncio.sleep", note)
    stream(ScriptedModel([[Reasoning("ab", 1), Text("abc", 1)]], delay=0.02))
    assert pauses.count(0.02) == 4
