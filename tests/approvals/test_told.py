from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_pydantic_agent import signals
from django_pydantic_agent.contrib.store.models import Interrupt
from django_pydantic_agent.runs.engine import stop_engine
from tests.api.posting import events, user_message
from tests.approvals.agent import GATES
from tests.approvals.client import Asker, approve, deny

Heard = list[tuple[str, str, str]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Hear of decisions: the run that is named with each, the interrupt, and the decision."""
    found: Heard = []

    def decided(run_id: str, interrupt_id: str, decision: str, **about: Any) -> None:
        found.append((run_id, interrupt_id, decision))

    signals.approval_decided.connect(decided)
    yield found
    signals.approval_decided.disconnect(decided)


def test_a_decision_is_told_of_by_the_run_that_acts_on_it(asker: Asker, heard: Heard):
    one, two = asker.ask("erase 7, erase 8", run_id="r1")
    asker.answer(approve(one), deny(two), run_id="r2")
    stop_engine()
    assert heard == [("r2", one["id"], "approved"), ("r2", two["id"], "denied")]


def test_what_a_new_message_gives_up_is_told_of_by_its_run(asker: Asker, heard: Heard):
    one, two = asker.ask("erase 7, erase 8", run_id="r1")
    asker.say("hello", run_id="r2")
    asker.say("hello", run_id="r3")
    stop_engine()
    assert heard == [("r2", one["id"], "cancelled"), ("r2", two["id"], "cancelled")]


def test_what_is_cancelled_by_itself_is_told_of_once_by_the_run_that_has_asked(asker: Asker, heard: Heard):
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    for _ in range(2):
        asker.client.post(f"{asker.mount}runs/r1/cancel/")
    stop_engine()
    assert heard == [("r1", interrupt["id"], "cancelled")]


def test_what_has_expired_while_a_turn_waited_for_it_is_told_of_by_the_run_that_has_asked(
    in_background: None, talk: Asker, heard: Heard
):
    talk.messages.append(user_message("hold asking, erase 7", "u-1"))
    asking = talk.send(run_id="r1")
    GATES["asking"].wait_reached(10)
    talk.messages.append(user_message("hello", "u-2"))
    waiting = talk.send(run_id="r2")
    GATES["asking"].open()
    (interrupt,) = events(asking)[-1]["outcome"]["interrupts"]
    assert heard == []
    Interrupt.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert events(waiting)[-1]["outcome"]["type"] == "success"
    stop_engine()
    assert heard == [("r1", interrupt["id"], "expired")]


def test_what_is_deleted_with_its_thread_is_not_told_of(talk: Asker, heard: Heard):
    talk.ask("erase 7")
    assert talk.client.delete(talk.url).status_code == 204
    stop_engine()
    assert heard == []
