"""A conversation in Chromium: leaving it in the middle, coming back, and going on."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.driver import Tab
from tests.live.scripts import call, fail, gate, script, spell, think
from tests.live.visitors import fresh

pytestmark = pytest.mark.browser

TEXT = ".ag-ui-message[data-role=assistant] .ag-ui-text"


def url(server, thread, mount="talk"):
    return f"{server.url}/{mount}/ui/threads/{thread}/"


def say(tab: Tab, *turns):
    """Write a message that has the agent answer with these turns, and send it."""
    tab("fill", "textarea[name=message]", script(*turns))
    tab("click", "text=Send")


def begin(visitor, server, *turns, thread=None, route="talk/"):
    """Start a run as another client would; return the ids of its thread and of the run."""
    thread, run = thread or fresh("thread"), fresh("run")
    visitor.post(server, run, script(*turns), route=route, thread_id=thread).close()
    return thread, run


def test_reloaded_in_the_middle_of_a_text_the_page_has_it_whole_and_once(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, run = begin(visitor, server, [spell("first half, "), gate(middle), spell("second half")])
    gates.wait_reached(middle)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "first half,")
        tab("reload")
        tab.see(TEXT, "first half,")
        gates.open(middle)
        tab.see(".ag-ui-run-state", "Finished.")
        assert tab.texts(TEXT) == ["first half, second half"]
        assert tab("faults") == []


def test_reloaded_in_the_middle_of_a_tool_the_page_has_it_and_stops_it_on_demand(server, browser, visitor, gates):
    within = fresh("within")
    thread, run = begin(visitor, server, [spell("before"), call("hold", call_id="c1", gate=within)], ["never said"])
    gates.wait_reached(within)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-tool[data-state=working]", "hold")
        tab("reload")
        tab.see(".ag-ui-tool[data-state=working]", "hold")
        tab("click", ".ag-ui-stop")
        tab.see(".ag-ui-run-state", "Cancelled.")
        tab.miss(".ag-ui-stop")
        assert tab.texts(TEXT) == ["before"]
        assert len(tab.texts(".ag-ui-tool")) == 1
        assert visitor.ended(run).status == "cancelled"
        tab("click", ".ag-ui-tool summary")
        assert within in tab.text(".ag-ui-tool pre")


def test_closed_in_the_middle_of_a_run_another_profile_of_the_same_user_has_it_whole(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, _ = begin(visitor, server, ["a first answer"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-run-state", "Finished.")
        say(tab, [think("thinking"), spell("one, "), gate(middle), spell("two")])
        tab.see(TEXT, "one,")
    gates.open(middle)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-run-state", "Finished.")
        assert tab.texts(TEXT) == ["a first answer", "one, two"]
        assert len(tab.texts(".ag-ui-message[data-role=user]")) == 2
        tab.miss(".ag-ui-note")
        assert tab("faults") == []


def test_two_tabs_show_one_conversation_and_each_is_told_what_the_other_adds(server, browser, visitor):
    thread, _ = begin(visitor, server, ["a first answer"])
    with browser.profile(visitor) as profile:
        one, two = profile.open(url(server, thread)), profile.open(url(server, thread))
        for tab in (one, two):
            tab.see(".ag-ui-run-state", "Finished.")
        say(one, ["from tab one"])
        two.see(TEXT, "from tab one")
        two.see(".ag-ui-notice", "1")
        say(two, ["from tab two"])
        one.see(TEXT, "from tab two")
        for tab, mine in ((one, 1), (two, 2)):
            tab.see(".ag-ui-run-state", "Finished.")
            assert tab.texts(TEXT) == ["a first answer", "from tab one", "from tab two"]
            marked = tab("evaluate", "[...document.querySelectorAll('.ag-ui-note')].map((note) => note.hidden)")
            assert marked == [True, mine == 1, mine == 2]
            assert tab("faults") == []
