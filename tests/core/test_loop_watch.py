"""What blocks the event loop of the engine is named in the log."""

import threading

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.loop_watch import LoopWatch
from django_pydantic_agent.testing.models import ScriptedModel, ToolCall
from tests.core.plans import plan, start, stored
from tests.waiting import eventually


@pytest.mark.django_db(transaction=True)
def test_a_tool_that_blocks_the_loop_is_named_once_with_where_it_stands(caplog: pytest.LogCaptureFixture, monkeypatch):
    looks, opened, look = [0], threading.Event(), LoopWatch.look

    def count_looks(watch: LoopWatch) -> None:
        look(watch)
        looks[0] += 1

    monkeypatch.setattr(LoopWatch, "look", count_looks)
    agent = Agent(ScriptedModel([[ToolCall("block")], ["done"]]))

    @agent.tool_plain
    async def block() -> str:
        opened.wait(30)
        return "opened"

    run_plan = plan(agent=agent, store=DatabaseRunStore())
    start(run_plan)
    eventually(lambda: "is blocked" in caplog.text)
    told = looks[0]
    eventually(lambda: looks[0] >= told + 2)
    opened.set()
    get_engine().wait()
    (record,) = [record for record in caplog.records if "is blocked" in record.message]
    assert "in block" in record.message
    assert stored(run_plan).status == "finished"
