import threading
from dataclasses import asdict
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from pydantic import BaseModel, model_serializer
from pydantic_ai import Agent, ModelRetry

from django_pydantic_agent.policy.audit import size_of
from django_pydantic_agent.runs.engine import stop_engine
from django_pydantic_agent.testing.models import Failure, ScriptedModel, ToolCall
from tests.core.plans import events, plan

SECRET = "secret-marker"


class Log:
    """Keeps the records that it is called with, and the thread in which it was."""

    def __init__(self, fails: bool = False) -> None:
        self.records: list[Any] = []
        self.threads: set[str] = set()
        self.fails = fails

    def __call__(self, record: Any) -> None:
        self.records.append(record)
        self.threads.add(threading.current_thread().name)
        if self.fails:
            raise RuntimeError("the disk is full")


class AsyncLog(Log):
    async def __call__(self, record: Any) -> None:
        super().__call__(record)


def agent() -> Agent:
    script = [[ToolCall("say", {"text": SECRET}, id="c1")], [ToolCall("balk", id="c2")], [ToolCall("balk", id="c3")]]
    agent, left = Agent(ScriptedModel([*script, ["done"]])), [ModelRetry("again"), PermissionDenied()]

    @agent.tool_plain
    def say(text: str) -> str:
        return text * 2

    @agent.tool_plain
    def balk() -> str:
        raise left.pop(0)

    return agent


def told(run_plan: Any, log: Log) -> list[tuple[Any, ...]]:
    events(run_plan)
    stop_engine()
    return [(record.kind, record.tool, record.tool_call_id, record.outcome) for record in log.records]


@pytest.mark.parametrize("log", [Log(), AsyncLog(), Log(fails=True)], ids=["sync", "async", "failing"])
def test_there_is_one_record_for_each_tool_call_and_run_from_a_thread_of_their_own(log):
    assert told(plan(agent=agent(), audit_logger=log), log) == [
        ("tool", "say", "c1", "completed"),
        ("tool", "balk", "c2", "retried"),
        ("tool", "balk", "c3", "denied"),
        ("run", "", "", "finished"),
    ]
    assert not log.threads & {"MainThread", "agent-engine", "agent-recorder", "agent-tool"}


def test_a_record_holds_ids_times_and_sizes_but_no_content():
    log = Log()
    run_plan = plan(agent=agent(), audit_logger=log)
    found = events(run_plan)
    stop_engine()
    call, run = log.records[0], log.records[-1]
    for record in (call, run):
        assert (record.owner, record.server, record.attempt) == ("user:1", "ag_ui", 1)
        assert (record.run_id, record.thread_id) == (run_plan.run_input.run_id, "t1")
        assert record.duration_seconds >= 0
    assert (call.input_bytes, call.output_bytes) == (len('{"text":"secret-marker"}'), 2 * len(SECRET))
    assert run.input_bytes == len(run_plan.request.body)
    assert run.output_bytes > len(str(found[1:-1])) / 2
    assert SECRET not in str([asdict(record) for record in log.records])


def test_a_run_that_failed_has_its_record():
    log = Log()
    assert told(plan([[Failure(RuntimeError(SECRET))]], audit_logger=log), log) == [("run", "", "", "failed")]


def test_a_result_has_its_size_as_text_or_JSON():
    class Odd(BaseModel):
        @model_serializer
        def text(self) -> str:
            raise ValueError

    assert [size_of(value) for value in ("é", {"a": 1}, b"\xff", None, Odd())] == [2, 7, 6, 4, None]
