"""Approvals in Chromium."""

import pytest

from django_pydantic_agent.contrib.store.models import Interrupt
from tests.browser.conversation import TEXT, begin, press, url
from tests.live.scripts import RECITE, call

# What a browser shows is the same on every database, and comes late where others want the processor.
pytestmark = [pytest.mark.browser, pytest.mark.sqlite]

CARD = ".ag-ui-approval"


def order(number):
    return call("order", call_id="c1", number=number)


def test_C13_approved_in_one_tab_after_a_restart_the_question_closes_in_the_other_and_the_tool_runs_once(
    start, browser, visitor, gates
):
    number = 2512292042121000001
    with start() as server:
        thread, run = begin(visitor, server, [order(number)], ["it is ordered"])
        assert visitor.ended(run).status == "interrupted"
    with start(port=server.port), browser.profile(visitor) as profile:
        one, two = profile.open(url(server, thread)), profile.open(url(server, thread))
        for tab in (one, two):
            tab.see(CARD, "order")
            tab.see(".ag-ui-tool[data-state=asked]")
            tab("click", f"{CARD} summary")
            assert f'"number": {number}\n' in tab("inputValue", f"{CARD} textarea")
        press(one, "Approve")
        for tab in (one, two):
            tab.see(TEXT, "it is ordered")
            tab.miss(CARD)
            tab.see(".ag-ui-tool[data-state=answered]")
        assert gates.count(f"order {number}") == 1


def test_an_answer_that_is_slow_to_be_confirmed_is_given_once_and_the_question_stays_closed(
    server, browser, visitor, gates
):
    thread, _ = begin(visitor, server, [order(551)], ["it is ordered"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(CARD, "order")
        tab("hold", "/talk/$")
        tab("dblclick", f'{CARD} button:text-is("Approve")')
        tab.see(TEXT, "it is ordered")
        tab.miss(CARD)
        tab("release")
        tab.see("textarea[name=message]:focus")
        assert len(tab("posts")) == 1
        assert (tab.texts(CARD), tab.text(".ag-ui-alarm")) == ([], "")
        assert gates.count("order 551") == 1


def test_an_answer_that_could_not_be_given_can_be_given_again(server, browser, visitor, gates):
    thread, _ = begin(visitor, server, [order(552)], ["it is ordered"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(CARD, "order")
        csrf = tab("evaluate", "document.getElementById('ag-ui-csrf').textContent")
        tab("evaluate", "document.getElementById('ag-ui-csrf').textContent = '\"wrong\"'")
        press(tab, "Approve")
        tab.see(".ag-ui-alarm", "You may not do this")
        tab("evaluate", f"document.getElementById('ag-ui-csrf').textContent = '{csrf}'")
        press(tab, "Approve")
        tab.see(TEXT, "it is ordered")
        tab.miss(CARD)
        assert gates.count("order 552") == 1


def test_a_question_that_expires_while_it_is_shown_can_be_dismissed(server, browser, visitor, gates):
    thread, run = begin(visitor, server, [order(553)], ["so be it"])
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(CARD, "order")
        tab.miss(f'{CARD} button:has-text("It has expired")')
        Interrupt.objects.filter(run__run_id=run).update(expires_at=0)
        press(tab, "Approve")
        tab("click", f'{CARD} button:has-text("It has expired")')
        tab.miss(CARD)
        assert gates.count("order 553") == 0


def test_C13_arguments_that_were_edited_keep_their_digits_and_nonsense_is_not_sent(server, browser, visitor, gates):
    thread, _ = begin(visitor, server, [order(1)], ["it is ordered"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(CARD, "order")
        tab("click", f"{CARD} summary")
        tab("fill", f"{CARD} textarea", "[1]")
        press(tab, "Approve")
        tab.see(".ag-ui-fault", "not a JSON object")
        tab("fill", f"{CARD} textarea", '{"number": 9007199254740993}')
        press(tab, "Approve")
        tab.see(TEXT, "it is ordered")
        assert gates.count("order 9007199254740993") == 1
        assert gates.count("order 1") == 0


def test_denied_a_call_is_not_executed_and_the_model_hears_why(server, browser, visitor, gates):
    thread, _ = begin(visitor, server, [order(77)], [RECITE])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab("fill", f"{CARD} input", "too many")
        press(tab, "Deny")
        tab.see(TEXT, "too many")
        assert gates.count("order 77") == 0


def test_two_questions_are_answered_together(server, browser, visitor, gates):
    both = [call("order", call_id="c1", number=881), call("order", call_id="c2", number=882)]
    thread, _ = begin(visitor, server, both, ["as you say"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(f"{CARD} >> nth=1")
        tab("click", f'{CARD} >> nth=0 >> button:text-is("Approve")')
        assert tab("isDisabled", f'{CARD} >> nth=0 >> button:text-is("Deny")')
        tab("click", f'{CARD} >> nth=1 >> button:text-is("Deny")')
        tab.see(TEXT, "as you say")
        tab.miss(CARD)
        assert (gates.count("order 881"), gates.count("order 882")) == (1, 0)
