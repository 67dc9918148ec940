"""What the engine reads and writes itself waits for no tool."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.test import override_settings
from pydantic_ai import Agent

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.engine import get_engine, stop_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.leases import RELEASED
from django_pydantic_agent.testing.models import Gate, ScriptedModel, ToolCall
from tests.threads.talk import Talk

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def blocked_threads() -> Iterator[tuple[Talk, StoredRun]]:
    """Have a run's tool block the only thread that there is for tools, to the end of the block."""
    gate, passed = Gate(), threading.Event()
    agent = Agent(ScriptedModel(lambda prompt: [[ToolCall("block")] if prompt == "block" else ["said"], ["done"]]))

    @agent.tool_plain
    def block() -> None:
        try:
            gate.arrive_blocking()
        finally:
            passed.set()

    stop_engine()
    with override_settings(DJANGO_PYDANTIC_AGENT={"TOOL_THREADS": 1}):
        talk = Talk(agent)
        run = talk.start("block")
        gate.wait_reached()
        try:
            yield talk, run
            assert not passed.is_set()
        finally:
            gate.open()
            stop_engine()


@pytest.mark.parametrize("step_store", [None, DefaultStepStore])
def test_a_run_without_tools_does_not_wait_for_tools_that_block(step_store):
    with blocked_threads() as (talk, _):
        other = Talk(talk.agent, thread_id="other", step_store=step_store)
        assert other.say("speak")[-1]["type"] == "RUN_FINISHED"


def test_a_queued_run_is_cancelled_while_tools_block():
    with blocked_threads() as (talk, _):
        queued = talk.start("speak")
        get_engine().cancel(queued.key, store=talk.store)
        assert talk.events(queued)[-1]["outcome"] == {"type": "cancelled"}


def test_a_process_that_stops_lets_go_of_a_run_whose_tool_blocks():
    with blocked_threads() as (_, blocking):
        get_engine().drain(0)
        assert Run.objects.values_list("status", "beat").get(pk=blocking.key) == (RunStatus.RUNNING, RELEASED)
