"""A run is stopped at any moment, also before its agent begins."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.testing.models import Gate, ScriptedModel, ToolCall
from tests.core.plans import events, plan, start, stored, types
from tests.sse import check_sequence
from tests.waiting import eventually

HOOKS = pytest.mark.parametrize("hook", ["deps_factory", "model_for_request", "instructions_for_request", "step_store"])
KINDS = pytest.mark.parametrize("kind", ["blocking", "async"])


class Held:
    """A hook that waits at a gate, in its thread or on the event loop."""

    def __init__(self, kind: str) -> None:
        self.gate = Gate()
        self.ended = threading.Event()
        self.hook = self._blocking if kind == "blocking" else self._async

    def _blocking(self, request: object) -> None:
        try:
            self.gate.arrive_blocking()
        finally:
            self.ended.set()

    async def _async(self, request: object) -> None:
        try:
            await self.gate.arrive()
        finally:
            self.ended.set()


@HOOKS
@KINDS
def test_a_run_is_cancelled_while_a_hook_hangs(hook: str, kind: str):
    held = Held(kind)
    run_plan = plan(**{hook: held.hook})
    run = start(run_plan)
    held.gate.wait_reached()
    get_engine().cancel(run.key, store=run_plan.store)
    found = events(run_plan, run)
    check_sequence(found)
    assert found[-1]["outcome"] == {"type": "cancelled"}
    assert held.ended.is_set() == (kind == "async")
    held.gate.open()
    assert held.ended.wait(10)
    assert (stored(run_plan).status, stored(run_plan).last_seq) == (RunStatus.CANCELLED, len(found))


@KINDS
def test_a_hook_that_hangs_counts_in_the_time_of_its_run(kind: str):
    held = Held(kind)
    found = events(plan(deps_factory=held.hook, run_timeout=0.2))
    assert held.ended.is_set() == (kind == "async")
    held.gate.open()
    assert (types(found), found[-1]["code"]) == (["RUN_STARTED", "RUN_ERROR"], "timeout")


def test_the_agent_gets_the_time_that_its_hooks_have_left():
    ends, deadlines = [], []
    agent = Agent(ScriptedModel([[ToolCall("look")], ["done"]]))

    @agent.tool
    def look(ctx) -> None:
        deadlines.append(ctx.deadline)

    look.__annotations__.clear()

    def deps(request: object) -> None:
        begun = datetime.now(UTC)
        ends.append(eventually(lambda: (now := datetime.now(UTC)) > begun + timedelta(seconds=0.3) and now))

    run_plan = plan(agent=agent, deps_factory=deps, run_timeout=60)
    assert events(run_plan)[-1]["type"] == "RUN_FINISHED"
    assert deadlines[0] < ends[0] + timedelta(seconds=60)


def test_a_timeout_of_a_hooks_own_is_a_failure_like_any_other():
    async def impatient(request: object) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    assert events(plan(deps_factory=impatient, run_timeout=60))[-1]["code"] != "timeout"


def test_a_run_that_is_stopped_with_its_process_while_a_hook_hangs_says_so():
    held = Held("blocking")
    run_plan = plan(deps_factory=held.hook)
    run = start(run_plan)
    held.gate.wait_reached()
    get_engine().drain(0)
    held.gate.open()
    assert events(run_plan, run)[-1]["code"] == "shutdown"
    eventually(held.ended.is_set)
