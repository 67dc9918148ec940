"""An interrupt that nobody answers in time."""

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from django_pydantic_agent.contrib.store.models import Interrupt
from tests.approvals.agent import DONE
from tests.approvals.client import Asker, approve, cancel, deny

SOON = 3600


@pytest.fixture(autouse=True)
def expiring(project: None, settings: Settings) -> None:
    settings.DJANGO_PYDANTIC_AGENT = {**settings.DJANGO_PYDANTIC_AGENT, "APPROVAL_EXPIRY_SECONDS": SOON}


def expire() -> None:
    """Have everything that was asked expire, as the clock would."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    assert Interrupt.objects.update(expires_at=past)


def test_an_interrupt_says_when_it_expires(asker: Asker):
    before = datetime.now(UTC)
    (interrupt,) = asker.ask("erase 7")
    expiry = datetime.fromisoformat(interrupt["expiresAt"])
    assert timedelta(0) < expiry - before - timedelta(seconds=SOON - 1) < timedelta(seconds=SOON)
    asker.answer(approve(interrupt))
    assert DONE == [7]


def test_C17_an_expired_interrupt_is_not_shown_and_can_only_be_cancelled(asker: Asker):
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    expire()
    shown = asker.run("r1")
    assert (shown["interrupts"], shown["pending_interrupts"], shown["status"]) == ([], 0, "interrupted")
    assert asker.refused(approve(interrupt)) == (409, "interrupt_expired", [])
    assert asker.refused(deny(interrupt)) == (409, "interrupt_expired", [])
    asker.answer(cancel(interrupt))
    assert (DONE, asker.messages[-1]["content"]) == ([], "done")


def test_an_expired_interrupt_that_is_cancelled_holds_up_no_other(asker: Asker):
    late, other = asker.ask("erase 1, erase 2")
    past = datetime.now(UTC) - timedelta(seconds=1)
    assert Interrupt.objects.filter(interrupt_id=late["id"]).update(expires_at=past)
    assert asker.refused(approve(late), cancel(other)) == (409, "interrupt_expired", [])
    assert asker.refused(approve(other)) == (422, "answers_missing", [late["id"]])
    asker.answer(approve(other), cancel(late))
    assert (DONE, asker.messages[-1]["content"]) == ([2], "done")


def test_a_new_message_goes_on_behind_an_expired_interrupt(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    expire()
    assert asker.say("hello")[-1]["outcome"]["type"] == "success"
    assert asker.refused(approve(interrupt)) == (409, "already_decided", [])
    assert DONE == []
