import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.dispatch import Signal
from django.test import Client
from pydantic_ai import Agent
from pytest_django import Settings

from django_pydantic_agent import signals
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs import announcer as announcing
from django_pydantic_agent.runs.announcer import Announcer, InlineAnnouncer
from django_pydantic_agent.runs.engine import get_engine, stop_engine
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.models import Failure, Gate, ScriptedModel, ToolCall
from tests.api.posting import events as posted_events
from tests.api.posting import post
from tests.core.plans import events, plan, start
from tests.store.factories import ending

SIGNALS = {name: signal for name, signal in vars(signals).items() if isinstance(signal, Signal)}
IMMEDIATE = {"EXECUTORS": {"default": {"BACKEND": "django_pydantic_agent.runs.executors.immediate.ImmediateExecutor"}}}


@pytest.fixture
def heard() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Hear every signal; in the list stand its name and its arguments."""
    found: list[tuple[str, dict[str, Any]]] = []
    receivers = {}
    for name, signal in SIGNALS.items():

        def hear(sender: Any, signal: Signal, name: str = name, **about: Any) -> None:
            assert sender is StoredRun
            found.append((name, about))

        receivers[name] = hear
        signal.connect(hear)
    yield found
    for name, signal in SIGNALS.items():
        signal.disconnect(receivers[name])


@pytest.fixture
def connect() -> Iterator[Any]:
    connected = []

    def connect(signal: Signal, receiver: Any) -> None:
        signal.connect(receiver, weak=False)
        connected.append((signal, receiver))

    yield connect
    for signal, receiver in connected:
        signal.disconnect(receiver)


def names(heard: list[tuple[str, dict[str, Any]]]) -> list[str]:
    stop_engine()
    return [name for name, _ in heard]


def test_a_run_that_ends_well_is_told_of_with_ids_and_without_content(heard):
    run_plan = plan([["hello"]])
    events(run_plan)
    assert names(heard) == ["run_started", "run_finished"]
    ids = {"run_id": run_plan.run_input.run_id, "thread_id": "t1", "owner": "user:1", "server": "ag_ui", "attempt": 1}
    assert [about for _, about in heard] == [ids, ids | {"status": "finished"}]


def test_a_run_that_fails_is_told_of_with_its_code(heard):
    events(plan([[Failure(RuntimeError("secret"))]]))
    assert names(heard)[-1] == "run_failed"
    assert heard[-1][1]["code"] == "internal_error"
    assert "secret" not in str(heard)


def test_a_run_that_is_stopped_is_told_of(heard):
    gate = Gate()
    run_plan = plan([["a", gate, "b"]])
    run = start(run_plan)
    gate.wait_reached(10)
    get_engine().cancel(run.key, store=run_plan.store)
    events(run_plan, run)
    assert names(heard) == ["run_started", "run_cancelled"]


def test_questions_are_told_of_one_by_one_when_they_are_asked_and_when_they_are_answered(heard):
    agent = Agent(ScriptedModel([[ToolCall("pay", id="p1"), ToolCall("pay", id="p2")]]))

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    run_plan = plan(agent=agent)
    run = start(run_plan)
    asked = events(run_plan, run)[-1]["outcome"]["interrupts"]
    get_engine().announcer.decided(run, {asked[0]["id"]: Decision.APPROVED})
    assert names(heard) == [
        "run_started",
        "approval_requested",
        "approval_requested",
        "run_finished",
        "approval_decided",
    ]
    told = [(about["interrupt_id"], about["tool_call_id"]) for name, about in heard if name == "approval_requested"]
    assert told == [(interrupt["id"], interrupt["toolCallId"]) for interrupt in asked]
    assert heard[3][1]["status"] == "interrupted"
    assert heard[4][1].items() >= {"interrupt_id": asked[0]["id"], "decision": "approved"}.items()


def test_what_a_replaced_run_asks_nobody_is_not_told_of(heard):
    run_plan = plan()
    run = run_plan.store.create(new_run(run_plan), on_commit=lambda run, frame: None)
    asked = ending(RunStatus.INTERRUPTED, interrupts=[{"id": "i1"}])
    for asks_nobody in (True, False):
        write = RunWrite(key=run.key, epoch=1, first_seq=2, ending=asked, asks_nobody=asks_nobody)
        InlineAnnouncer().committed(run, write, store=run_plan.store)
    assert names(heard) == ["run_finished", "approval_requested", "run_finished"]


def test_nobody_waits_for_a_slow_receiver_and_what_it_raises_is_logged(connect, heard, caplog):
    entered, left = threading.Event(), threading.Event()

    def slow(**about: Any) -> None:
        entered.set()
        left.wait(30)
        raise RuntimeError("out of paper")

    connect(signals.run_started, slow)
    events(plan([["one"]]))
    assert entered.wait(10)
    assert events(plan([["two"]]))[-1]["type"] == "RUN_FINISHED"
    assert not left.is_set()
    left.set()
    assert names(heard).count("run_finished") == 2
    assert "out of paper" in caplog.text


def test_what_is_too_much_for_slow_receivers_is_dropped_and_logged(monkeypatch, caplog):
    monkeypatch.setattr(announcing, "MAX_WAITING", 1)
    announcer, called, left = Announcer(), [], threading.Event()
    entered = threading.Event()
    announcer.put(lambda: (entered.set(), left.wait(30)))
    assert entered.wait(10)
    for number in range(3):
        announcer.put(lambda number=number: called.append(number))
    left.set()
    announcer.stop()
    assert called == [0]
    assert "is dropped: 1 wait" in caplog.text


def test_a_receiver_may_be_a_coroutine_function(connect):
    reached = threading.Event()

    async def receiver(**about: Any) -> None:
        reached.set()

    connect(signals.run_finished, receiver)
    announcer = Announcer()
    announcer.put(lambda: signals.run_finished.send_robust(StoredRun))
    announcer.stop()
    assert reached.is_set()


@pytest.mark.django_db(transaction=True)
def test_receivers_see_what_they_are_told_of_in_the_database(connect, settings: Settings, client: Client):
    settings.ROOT_URLCONF = "tests.api.urls"
    seen = []

    def look(run_id: str, **about: Any) -> None:
        seen.append((Run.objects.get(run_id=run_id).status, connection.in_atomic_block))

    for signal in (signals.run_started, signals.thread_saved, signals.run_finished):
        connect(signal, look)
    client.force_login(User.objects.create_user("ada"))
    posted_events(post(client, "/talk/"))
    stop_engine()
    assert seen[-2:] == [("finished", False)] * 2
    assert all(status in ("running", "finished") for status, _ in seen)
    assert len(seen) >= 3


def test_in_a_test_that_is_rolled_back_receivers_are_called_before_the_response(
    heard, settings: Settings, client: Client, db: None
):
    settings.ROOT_URLCONF, settings.DJANGO_PYDANTIC_AGENT = "tests.api.urls", IMMEDIATE
    client.force_login(User.objects.create_user("ada"))
    response = post(client, "/talk/")
    told = [name for name, _ in heard]
    assert (told[0], told[-1]) == ("run_started", "run_finished")
    assert set(told[1:-1]) == {"thread_saved"}
    posted_events(response)
