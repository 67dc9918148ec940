import asyncio
import threading
from dataclasses import replace

import pytest

from django_pydantic_agent.runs import viewers
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.runs.watcher import Watcher
from django_pydantic_agent.stores.writes import Ending, RunWrite
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


def test_an_execution_that_leaves_late_leaves_the_next_one_of_its_run_guarded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(viewers, "RETURN_SECONDS", 0.0)
    run_plan = unwatched_plan(Gate(), 0.0)
    run = run_plan.store.create(new_run(run_plan), on_commit=lambda *_: None)
    cancelled = threading.Event()
    counted = viewers.Viewers()
    counted.guard(run_plan.store, replace(run, epoch=2), cancel=cancelled.set)
    counted.release(run_plan.store, run.key, 1)
    try:
        assert cancelled.wait(10)
    finally:
        counted.stop()


def test_viewers_from_before_a_run_was_taken_over_and_lost_again_see_its_end_too():
    run_plan = plan()
    store = run_plan.store
    run = store.create(new_run(run_plan), on_commit=lambda *_: None)
    watcher = Watcher()
    before = watcher.watch(store, run)
    own = LiveLog(store, run.key, last_seq=run.last_seq, status=run.status)
    watcher.adopt(own)
    ending = Ending(status=RunStatus.FINISHED, frame=lambda revision: b"{}")
    assert store.commit([RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, ending=ending)]) == [None]
    for log in (before, own):
        log.wait(1, 10)
    watcher.stop()
    assert (before.status, own.status) == (RunStatus.FINISHED, RunStatus.FINISHED)
