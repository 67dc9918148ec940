import asyncio
from dataclasses import replace

import pytest

from django_pydantic_agent.runs import viewers
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.testing.models import Gate, Text
from tests.core.plans import plan, start, stored


def unwatched_plan(gate: Gate, cancel_after: float | None):
    return replace(plan([[Text("a"), gate, Text("b")]]), cancel_after=cancel_after)


async def look_in(run_plan, run):
    async for batch in get_engine().follow(run, store=run_plan.store):
        if batch.frames:
            return


def test_a_run_in_memory_is_cancelled_when_its_viewer_has_left():
    gate = Gate()
    run_plan = unwatched_plan(gate, 0.0)
    run = start(run_plan)
    gate.wait_reached()
    asyncio.run(look_in(run_plan, run))
    get_engine().wait()
    assert stored(run_plan).status == "cancelled"


def test_a_run_that_never_gets_a_viewer_is_cancelled_in_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(viewers, "RETURN_SECONDS", 0.1)
    run_plan = unwatched_plan(Gate(), 0.0)
    start(run_plan)
    get_engine().wait()
    assert stored(run_plan).status == "cancelled"


def test_a_run_goes_on_as_long_as_one_of_its_viewers_is_there():
    gate, other_gate = Gate(), Gate()
    run_plan, other_plan = unwatched_plan(gate, 0.0), unwatched_plan(other_gate, 0.0)
    run, other = start(run_plan), start(other_plan)
    gate.wait_reached()
    stays = iter(get_engine().follow(run, store=run_plan.store))
    next(stays)
    asyncio.run(look_in(run_plan, run))
    other_gate.wait_reached()
    asyncio.run(look_in(other_plan, other))
    # This one was left later.
    for batch in get_engine().follow(replace(other, cancel_after=None), store=other_plan.store):
        assert batch.first_seq
    assert (stored(other_plan).status, stored(run_plan).status) == ("cancelled", "running")
    gate.open()
    list(stays)
    assert stored(run_plan).status == "finished"
