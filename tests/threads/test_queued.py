"""What a run that waits for its turn costs, and when it is let go of."""

import threading

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.runs import execution
from django_pydantic_agent.runs.engine import get_engine, stop_engine
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.leases import RELEASED
from django_pydantic_agent.testing.models import Gate, ScriptedModel, ToolCall
from tests.threads.talk import Talk
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


class Looks:
    """How often queued runs have asked what is ahead of them, and the status of what was the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last, real = 0, None, DatabaseRunStore.ahead

        def ahead(store: DatabaseRunStore, key: int) -> StoredRun | None:
            run = real(store, key)
            self.count, self.last = self.count + 1, run and run.status
            return run

        monkeypatch.setattr(DatabaseRunStore, "ahead", ahead)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def behind_a_question() -> tuple[Talk, StoredRun, StoredRun]:
    """Return a thread, its run that has asked a person something, and one that is queued behind that."""
    gate = Gate()
    agent = Agent(ScriptedModel(lambda prompt: [[gate, ToolCall("sign")] if prompt == "sign" else ["said"], ["done"]]))

    @agent.tool_plain(requires_approval=True)
    def sign() -> str:
        return "signed"

    talk = Talk(agent)
    asking = talk.start("sign")
    gate.wait_reached()
    queued = talk.start("speak")
    gate.open()
    assert talk.events(asking)[-1]["outcome"]["type"] == "interrupt"
    return talk, asking, queued


def test_a_queued_run_asks_what_is_ahead_when_that_has_ended_and_not_at_each_of_its_commits(looks):
    gates = [Gate() for _ in range(5)]
    said = [part for gate in gates for part in (gate, "said ")]
    talk = Talk(Agent(ScriptedModel(lambda prompt: [said if prompt == "one" else ["said"]])))
    first = talk.start("one")
    gates[0].wait_reached()
    eventually(lambda: Run.objects.get(pk=first.key).status == RunStatus.RUNNING)
    second = talk.start("two")
    eventually(lambda: looks.last is RunStatus.RUNNING)
    before = looks.count
    for gate in gates:
        gate.wait_reached()
        gate.open()
    talk.events(first)
    talk.events(second)
    assert looks.count == before + 1


def test_a_queued_run_looks_ever_more_rarely_for_the_answer_of_a_person(looks, monkeypatch):
    slept, real = [], execution.asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(execution.asyncio, "sleep", sleep)
    talk, asking, queued = behind_a_question()
    eventually(lambda: len(slept) > 6)
    get_engine().cancel_asked(asking, store=talk.store, conversation=talk.conversation)
    talk.events(queued)
    assert slept[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_process_that_stops_lets_go_of_what_has_not_begun_without_waiting():
    _, _, queued = behind_a_question()
    draining = threading.Thread(target=get_engine().drain, args=[600], daemon=True)
    draining.start()
    draining.join(60)
    assert not draining.is_alive()
    assert Run.objects.values_list("status", "beat").get(pk=queued.key) == (RunStatus.QUEUED, RELEASED)


def test_who_waits_for_the_runs_of_a_process_does_not_wait_for_those_behind_a_question():
    talk, asking, queued = behind_a_question()
    last = talk.start("speak")
    waiting = threading.Thread(target=get_engine().wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
    assert {Run.objects.get(pk=run.key).status for run in (queued, last)} == {RunStatus.QUEUED}
    talk.store.give_up(asking.key, Decision.CANCELLED, conversation=talk.conversation)
    for run in (queued, last):
        assert talk.events(run)[-1]["type"] == "RUN_FINISHED"


def test_who_waits_for_the_runs_of_a_process_waits_for_those_behind_one_that_goes_on():
    gate = Gate()
    talk = Talk(Agent(ScriptedModel(lambda prompt: [[gate, "said"] if prompt == "one" else ["said"]])))
    talk.start("one")
    gate.wait_reached()
    for text in ("two", "three"):
        talk.start(text)
    waiting = threading.Thread(target=get_engine().wait, daemon=True)
    waiting.start()
    gate.open()
    waiting.join(60)
    assert set(Run.objects.values_list("status", flat=True)) == {"finished"}
    stop_engine()
