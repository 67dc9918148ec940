import asyncio
import threading

import pytest
from ag_ui.core import RunFinishedEvent, StateSnapshotEvent
from pydantic_ai import Agent, ModelRetry, ToolReturn

from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.testing.models import Failure, Gate, Reasoning, ScriptedModel, Text, ToolCall
from tests.core.plans import events, plan, start, stored, types
from tests.sse import check_sequence


def test_a_run_is_logged_from_started_to_finished_and_nothing_is_left_open():
    run_plan = plan([[Reasoning("thinking", chunk=3), Text("hello world", chunk=4)]])
    found = events(run_plan)
    check_sequence(found)
    text = "".join(event["delta"] for event in found if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "hello world"
    assert found[-1]["outcome"] == {"type": "success"}
    assert (stored(run_plan).status, stored(run_plan).last_seq) == (RunStatus.FINISHED, len(found))


def test_run_started_repeats_the_new_messages_only():
    messages = [
        {"id": "u1", "role": "user", "content": "one"},
        {"id": "a1", "role": "assistant", "content": "answer"},
        {"id": "u2", "role": "user", "content": "two"},
    ]
    opening = events(plan(messages=messages))[0]
    assert [message["id"] for message in opening["input"]["messages"]] == ["u2"]
    assert {key: opening["input"][key] for key in ("state", "tools", "context", "forwardedProps")} == {
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


def test_the_run_id_and_thread_id_reach_the_agent():
    agent = Agent(ScriptedModel([[ToolCall("ids")], ["done"]]))

    @agent.tool
    def ids(ctx) -> str:
        return f"{ctx.run_id} {ctx.conversation_id} {ctx.deps.run_id} {ctx.deps.thread_id}"

    ids.__annotations__.clear()
    run_plan = plan(agent=agent, run_id="r-77")
    result = next(event for event in events(run_plan) if event["type"] == "TOOL_CALL_RESULT")
    assert result["content"] == "r-77 t1 r-77 t1"


def test_a_tool_call_id_that_was_used_before_gets_one_of_its_own_on_the_wire():
    agent = Agent(
        ScriptedModel([[ToolCall("echo", {"n": 1}, id="call_1")], [ToolCall("echo", {"n": 2}, id="call_1")], ["ok"]])
    )

    @agent.tool_plain
    def echo(n: int) -> int:
        return n

    found = events(plan(agent=agent))
    check_sequence(found)
    results = [(event["toolCallId"], event["content"]) for event in found if event["type"] == "TOOL_CALL_RESULT"]
    assert results == [("call_1", "1"), ("call_1~2", "2")]
    starts = [event["toolCallId"] for event in found if event["type"] == "TOOL_CALL_START"]
    assert starts == ["call_1", "call_1~2"]


def test_more_than_fifty_model_requests_are_made_where_nobody_set_a_limit():
    agent = Agent(ScriptedModel([*[[ToolCall("step")] for _ in range(60)], ["done"]]))

    @agent.tool_plain
    def step() -> str:
        return "ok"

    assert events(plan(agent=agent))[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("kind", ["model", "tool", "hook", "retries"])
def test_C06_C07_C28_a_failure_ends_the_run_once_closes_everything_and_shows_nothing_of_the_exception(kind, caplog):
    error = RuntimeError("secret-marker")
    agent = Agent(
        ScriptedModel(
            {
                "model": [[Text("half a sen", chunk=2), Failure(error)]],
                "tool": [[Text("let me see"), ToolCall("fails"), ToolCall("slow")], ["never"]],
                "hook": [["never"]],
                "retries": [[ToolCall("again")], [ToolCall("again")], ["never"]],
            }[kind]
        ),
        retries=1,
    )

    @agent.tool_plain
    def fails() -> str:
        raise error

    @agent.tool_plain
    async def slow() -> str:
        await asyncio.sleep(30)
        return "never"

    @agent.tool_plain
    def again() -> str:
        raise ModelRetry("secret-marker")

    def hook(request):
        raise error

    run_plan = plan(agent=agent, deps_factory=hook if kind == "hook" else None)
    found = events(run_plan)
    check_sequence(found)
    assert types(found).count("RUN_ERROR") == 1
    assert found[-1]["type"] == "RUN_ERROR"
    if kind != "retries":
        assert "secret-marker" not in repr(found)
    assert stored(run_plan).status is RunStatus.FAILED
    assert stored(run_plan).error == {"code": found[-1]["code"], "message": found[-1]["message"]}
    assert run_plan.run_input.run_id in caplog.text
    assert "secret-marker" in caplog.text


def test_a_cancelled_run_keeps_what_it_said_and_ends_as_cancelled():
    gate = Gate()
    run_plan = plan([[Text("kept"), gate, Text("never")]])
    run = start(run_plan)
    gate.wait_reached()
    assert get_engine().cancel(run.key, store=run_plan.store)
    get_engine().cancel(run.key, store=run_plan.store)
    found = events(run_plan, run)
    check_sequence(found)
    assert "kept" in repr(found)
    assert found[-1]["outcome"] == {"type": "cancelled"}
    assert stored(run_plan).status is RunStatus.CANCELLED
    assert not get_engine().cancel(run.key, store=run_plan.store)


def test_a_run_that_takes_too_long_fails_with_the_code_timeout():
    gate = Gate()
    run_plan = plan([[Text("so far"), gate]], run_timeout=0.2)
    found = events(run_plan)
    check_sequence(found)
    assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "timeout")


def test_a_tool_may_send_state_but_not_end_the_run():
    agent = Agent(ScriptedModel([[ToolCall("meddle")], ["done"]]))

    @agent.tool_plain
    def meddle() -> ToolReturn:
        return ToolReturn(
            "ok",
            metadata=[StateSnapshotEvent(snapshot={"n": 1}), RunFinishedEvent(thread_id="t1", run_id="other")],
        )

    found = events(plan(agent=agent))
    check_sequence(found)
    assert next(event for event in found if event["type"] == "STATE_SNAPSHOT")["snapshot"] == {"n": 1}
    assert types(found).count("RUN_FINISHED") == 1


def test_a_tool_that_needs_approval_interrupts_the_run_under_an_id_of_the_server():
    agent = Agent(ScriptedModel([[ToolCall("erase", {"order_id": 2512292042121000001}, id="call_9")], ["never"]]))

    @agent.tool_plain(requires_approval=True)
    def erase(order_id: int) -> str:
        raise AssertionError("nobody approved")

    run_plan = plan(agent=agent)
    found = events(run_plan)
    check_sequence(found)
    [interrupt] = found[-1]["outcome"]["interrupts"]
    assert interrupt["toolCallId"] == "call_9"
    assert "call_9" not in interrupt["id"]
    assert "2512292042121000001" in interrupt["message"]
    run = stored(run_plan)
    assert (run.status, run.interrupts, run.pending_interrupts) == (RunStatus.INTERRUPTED, [interrupt], 1)


def test_C04_sync_and_async_tools_side_by_side_do_not_wait_for_each_other():
    from asgiref.sync import async_to_sync, sync_to_async

    agent = Agent(ScriptedModel([[ToolCall("plain"), ToolCall("threaded"), ToolCall("nested")], ["done"]]))
    together = threading.Barrier(2, timeout=10)

    @agent.tool_plain
    def plain() -> str:
        together.wait()
        return "plain"

    @agent.tool_plain
    async def threaded() -> str:
        return await sync_to_async(lambda: "threaded")()

    @agent.tool_plain
    def nested() -> str:
        async def inner() -> str:
            return await sync_to_async(lambda: "nested")()

        together.wait()
        return async_to_sync(inner)()

    plans = [plan(agent=agent) for _ in range(10)]
    for run_plan, run in [(run_plan, start(run_plan)) for run_plan in plans]:
        found = events(run_plan, run)
        check_sequence(found)
        assert {event["content"] for event in found if event["type"] == "TOOL_CALL_RESULT"} == {
            "plain",
            "threaded",
            "nested",
        }


def test_C09_nan_and_infinity_become_null_and_the_model_sees_its_own_data():
    agent = Agent(ScriptedModel([[ToolCall("rates")], ["done"]]))

    @agent.tool_plain
    def rates() -> ToolReturn:
        return ToolReturn("ok", metadata=[StateSnapshotEvent(snapshot={"rate": float("nan"), "top": float("-inf")})])

    found = events(plan(agent=agent))
    assert next(event for event in found if event["type"] == "STATE_SNAPSHOT")["snapshot"] == {
        "rate": None,
        "top": None,
    }


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
def test_C08_text_that_not_every_database_takes_is_replaced_on_the_wire(text):
    agent = Agent(ScriptedModel([[ToolCall("odd")], ["done"]]))

    @agent.tool_plain
    def odd() -> str:
        return text

    found = events(plan(agent=agent))
    check_sequence(found)
    assert (
        next(event for event in found if event["type"] == "TOOL_CALL_RESULT")["content"]
        == "a\N{REPLACEMENT CHARACTER}b"
    )


def test_C11_values_without_a_json_form_do_not_fail_the_run():
    from decimal import Decimal

    agent = Agent(ScriptedModel([[ToolCall("odd")], ["done"]]))

    class Stubborn:
        def __str__(self) -> str:
            raise ValueError("no text either")

    @agent.tool_plain
    def odd() -> ToolReturn:
        snapshot = {"set": {1}, "decimal": Decimal("1.10"), "object": Stubborn()}
        return ToolReturn("ok", metadata=[StateSnapshotEvent(snapshot=snapshot)])

    found = events(plan(agent=agent))
    check_sequence(found)
    snapshot = next(event for event in found if event["type"] == "STATE_SNAPSHOT")["snapshot"]
    assert snapshot == {"set": [1], "decimal": "1.10", "object": "<Stubborn>"}


def test_a_huge_result_is_shortened_on_the_wire_and_whole_for_the_model():
    model = ScriptedModel([[ToolCall("huge")], ["done"]])
    agent = Agent(model)

    @agent.tool_plain
    def huge() -> str:
        return "é" * 3_000_000

    found = events(plan(agent=agent))
    content = next(event for event in found if event["type"] == "TOOL_CALL_RESULT")["content"]
    assert len(content.encode()) < 2 * 1024 * 1024 + 100
    assert content.endswith("[shortened: the first 2097152 of 6000000 bytes]")
    assert len(model.requests[-1][-1].parts[-1].content) == 3_000_000


def test_the_immediate_executor_has_ended_the_run_when_start_returns(settings):
    settings.DJANGO_PYDANTIC_AGENT = {
        "EXECUTORS": {"default": {"BACKEND": "django_pydantic_agent.runs.executors.immediate.ImmediateExecutor"}}
    }
    threads = []
    agent = Agent(ScriptedModel([[ToolCall("where")], ["done"]]))

    @agent.tool_plain
    def where() -> str:
        threads.append(threading.current_thread())
        return "here"

    run_plan = plan(agent=agent)
    run = start(run_plan)
    assert stored(run_plan).status is RunStatus.FINISHED
    assert threads == [threading.current_thread()]
    check_sequence(events(run_plan, run))
