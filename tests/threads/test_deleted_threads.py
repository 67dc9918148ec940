"""A thread that is deleted while a run of it goes on: the run ends without a trace, and nothing fails over it."""

import logging
from typing import Any

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.testing.models import Gate, ScriptedModel
from tests.threads.talk import OWNER, Talk

pytestmark = pytest.mark.django_db(transaction=True)


def delete(talk: Talk) -> list[int]:
    return talk.conversation.delete(owner=OWNER, thread_id=talk.thread_id)


def let_go(talk: Talk, run: Any) -> list[bytes]:
    """Return what a viewer of a run is shown until it is let go of."""
    follower = get_engine().follow(run, store=talk.store, idle_seconds=30)
    return [frame for batch in follower for frame in batch.frames]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("reading", ["ground", "_branch", "transcript"])
def test_a_run_whose_thread_is_deleted_as_it_begins_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reading: str
):
    talk, real = Talk(Agent(ScriptedModel([["said"]]))), getattr(DefaultConversationStore, reading)
    talk.say("one")

    def deleted_before(store: DefaultConversationStore, *args: Any, **keywords: Any) -> Any:
        monkeypatch.setattr(DefaultConversationStore, reading, real)
        delete(talk)
        return real(store, *args, **keywords)

    plan: dict[str, Any] = {"catches_up": True} if reading == "transcript" else {}
    view = talk.view()
    monkeypatch.setattr(talk, "view", lambda: view)
    monkeypatch.setattr(DefaultConversationStore, reading, deleted_before)
    assert len(let_go(talk, talk.start("two", **plan))) == 1
    assert not Run.objects.exists()
    assert errors(caplog) == []


def test_a_run_whose_thread_is_deleted_while_it_goes_on_is_no_error(caplog: pytest.LogCaptureFixture):
    gate = Gate()
    talk = Talk(Agent(ScriptedModel([["begun ", gate, "ended"]])))
    run = talk.start("one")
    gate.wait_reached()
    for key in delete(talk):
        get_engine().cancel(key, store=talk.store)
    let_go(talk, run)
    get_engine().drain(10)
    assert errors(caplog) == []
    assert not Run.objects.exists()
