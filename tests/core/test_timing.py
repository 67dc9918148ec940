"""The timing record of a run."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.timing import LABELS, Stopwatch, readable
from django_pydantic_agent.testing.models import Failure, Gate, Reasoning, ScriptedModel, Text, ToolCall
from tests.core.plans import events, plan, start, stored
from tests.core.test_recorder import TroubledStore

LOGGER = "django_pydantic_agent.runs.timing"
SECRET = "nobody logs this"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that returns the one line that the run so far has logged."""
    caplog.set_level(logging.INFO, logger=LOGGER)

    def only_one() -> logging.LogRecord:
        get_engine().wait()
        (record,) = [record for record in caplog.records if record.name == LOGGER]
        return record

    return only_one


def test_the_record_of_a_run_holds_its_moments_in_their_order(logged):
    gate = Gate()
    run_plan = plan([[Reasoning(SECRET, chunk=1), gate, Text(SECRET, chunk=1)]])
    run = start(run_plan)
    gate.wait_reached()
    viewer = iter(get_engine().follow(run, store=run_plan.store))
    next(viewer)
    gate.open()
    list(viewer)
    line = logged()
    timing = line.timing
    assert timing.keys() == LABELS.keys()
    assert timing["accepted"] == run.started_at.isoformat()
    moments = [timing[name] for name in ("began", "first_delta", "first_viewer", "last_delta", "end")]
    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert timing["commits"] > 0
    assert timing["longest_commit"] > 0
    assert (timing["retries"], timing["failures"]) == (0, 0)
    assert line.levelno == logging.INFO
    assert SECRET not in line.getMessage()
    assert f"Run {run.run_id!r} is finished: accepted " in line.getMessage()


def test_what_did_not_happen_is_not_told(logged):
    run_plan = plan([[Failure(ValueError(SECRET))]])
    start(run_plan)
    line = logged()
    assert [line.timing[name] for name in ("first_delta", "last_delta", "first_viewer")] == [None] * 3
    assert "is failed" in line.getMessage()
    assert "first delta -, last delta -" in line.getMessage()
    assert SECRET not in line.getMessage()


def test_the_arguments_of_a_tool_are_deltas_too(logged):
    agent = Agent(ScriptedModel([[ToolCall("echo", {"text": "a"})], [""]]))

    @agent.tool_plain
    def echo(text: str) -> str:
        return text

    events(plan(agent=agent))
    assert logged().timing["first_delta"] is not None


def test_commits_that_are_tried_again_are_counted(logged):
    store = TroubledStore()
    store.gone_for = 2
    run_plan = plan([["hello"]], store=store)
    events(run_plan)
    assert logged().timing["retries"] == 2


def test_a_run_that_waits_is_timed_from_its_acceptance():
    stopwatch = Stopwatch(datetime.now(UTC) - timedelta(hours=1))
    stopwatch.begin()
    assert 3600 <= stopwatch.record()["began"] < 3700


def test_a_run_that_was_cancelled_is_logged_as_that(logged):
    gate = Gate()
    run_plan = plan([[Text("a"), gate, Text("b")]])
    run = start(run_plan)
    gate.wait_reached()
    get_engine().cancel(run.key, store=run_plan.store)
    assert "is cancelled" in logged().getMessage()
    assert stored(run_plan).status == "cancelled"


def test_a_viewer_on_a_loop_counts_as_one(logged):
    gate = Gate()
    run_plan = plan([[gate, Text("b")]])
    run = start(run_plan)

    async def view() -> None:
        async for _ in get_engine().follow(run, store=run_plan.store):
            gate.open()

    asyncio.run(view())
    assert logged().timing["first_viewer"] is not None


def test_a_record_is_readable_whatever_it_lacks():
    told = dict(readable({"end": 1.5, "commits": 3, "accepted": "2026-07-27T12:00:00+00:00"}))
    assert list(told) == list(LABELS.values())
    assert (told["ended"], told["commits"], told["accepted"]) == ("1.500 s", "3", "2026-07-27T12:00:00+00:00")
    assert told["longest commit"] == "-"
