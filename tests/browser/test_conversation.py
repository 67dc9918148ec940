"""A conversation in Chromium: leaving it in the middle, coming back, and going on."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.conversation import PROMPT, TEXT, begin, press, say, url
from tests.live.scripts import call, fail, gate, script, spell, think
from tests.live.visitors import fresh
from tests.sse import request

# What a browser shows is the same on every database, and comes late where others want the processor.
pytestmark = [pytest.mark.browser, pytest.mark.sqlite]


def test_reloaded_in_the_middle_of_a_text_the_page_has_it_whole_and_once(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, _ = begin(visitor, server, [spell("first half, "), gate(middle), spell("second half")])
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


def test_a_tab_that_was_asleep_posts_its_old_transcript_and_is_told_what_it_missed(server, browser, visitor):
    thread, _ = begin(visitor, server, ["a first answer"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-run-state", "Finished.")
        # Asleep, it hears nothing: its stream is cut, and the next one has to wait.
        tab("block", "/events/")
        profile.set_offline(True)
        tab.see(".ag-ui-banner", "Reconnecting")
        profile.set_offline(False)
        visitor.run(server, fresh("run"), script(["said meanwhile"]), route="talk/", thread_id=thread)
        say(tab, ["said at last"])
        tab.see("textarea:invalid")
        (posted,) = tab("posts")
        known = json.loads(posted["body"])["messages"]
        assert [message["role"] for message in known] == ["user", "assistant", "user"]
        tab("unblock")
        tab.see(TEXT, "said at last")
        tab.see(".ag-ui-run-state", "Finished.")
        assert tab.texts(TEXT) == ["a first answer", "said meanwhile", "said at last"]
        assert "1" in tab.text(".ag-ui-notice")
        marked = tab("evaluate", "[...document.querySelectorAll('.ag-ui-note')].map((note) => note.hidden)")
        assert marked == [True, False, True]


def test_a_conversation_longer_than_a_post_may_be_goes_on_from_the_page(start, browser, visitor):
    with start(settings_module="tests.browser.small_settings") as server:
        thread, run = begin(visitor, server, ["long " * 1000])
        visitor.ended(run)
        with browser.profile(visitor) as profile:
            tab = profile.open(url(server, thread))
            tab.see(".ag-ui-run-state", "Finished.")
            say(tab, ["a short answer"])
            tab.see(TEXT, "a short answer")
            tab.see(".ag-ui-run-state", "Finished.")
            assert [len(text) > 4000 for text in tab.texts(TEXT)] == [True, False]


def test_offline_for_ten_seconds_the_page_says_so_and_then_has_the_exact_text(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, _ = begin(visitor, server, [spell("one, "), gate(middle), spell("two")])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "one,")
        profile.set_offline(True)
        tab.see(".ag-ui-banner", "The connection dropped; the run goes on.")
        tab.see(".ag-ui-banner", "Reconnecting, attempt 1.")
        gates.open(middle)
        tab("waitForTimeout", 10_000)
        tab.see(".ag-ui-banner", "Reconnecting, attempt")
        assert tab.texts(TEXT) == ["one,"]
        profile.set_offline(False)
        tab.see(".ag-ui-banner", "Resumed.")
        tab.see(".ag-ui-run-state", "Finished.")
        assert tab.texts(TEXT) == ["one, two"]


def test_killed_with_its_server_a_run_is_shown_as_ended_by_a_crash_and_goes_on_on_demand(
    start, browser, visitor, gates
):
    within = fresh("within")
    with browser.profile(visitor) as profile:
        with start() as server:
            first = call("hold", call_id="c1", gate=within)
            thread, run = begin(visitor, server, [spell("before"), first], ["and after"], ["and again"])
            gates.wait_reached(within)
            tab = profile.open(url(server, thread))
            tab.see(".ag-ui-tool[data-state=working]")
            server.kill()
            tab.see(".ag-ui-banner", "The connection dropped; the run goes on.")
        with start(port=server.port):
            tab.see(".ag-ui-banner", "Resumed.")
            tab.see(".ag-ui-run-state", "Ended by a crash.")
            tab.see(".ag-ui-tool .ag-ui-unknown:not([hidden])")
            assert visitor.ended(run).status == "orphaned"
            assert tab.texts(TEXT) == ["before"]
            press(tab, "Go on from where it was cut")
            tab.see(".ag-ui-run-state", "Finished.")
            assert tab.texts(TEXT) == ["before", "and after"]
            assert gates.count(within) == 1


def test_a_message_that_waits_for_the_run_ahead_is_said_to_wait(server, browser, visitor, gates):
    within = fresh("ahead")
    thread, _ = begin(visitor, server, [call("hold", call_id="c1", gate=within)], ["first"])
    gates.wait_reached(within)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-tool[data-state=working]")
        say(tab, ["second"])
        tab.see(".ag-ui-notice", "waits for the turn ahead")
        gates.open(within)
        tab.see(TEXT, "second")
        assert tab.text(".ag-ui-notice") == ""


def test_what_a_run_asks_is_asked_in_every_tab_until_one_says_something_else(server, browser, visitor, gates):
    thread, _ = begin(visitor, server, [call("order", call_id="c1", number=2512292042121000001)], ["ordered"])
    with browser.profile(visitor) as profile:
        one, two = profile.open(url(server, thread)), profile.open(url(server, thread))
        for tab in (one, two):
            tab.see(".ag-ui-approval", "order")
            tab.see(".ag-ui-tool[data-state=asked]")
            tab("click", ".ag-ui-approval summary")
            assert '"number": 2512292042121000001\n' in tab("inputValue", ".ag-ui-approval textarea")
        say(one, ["something else"])
        two.see(TEXT, "something else")
        two.miss(".ag-ui-approval")
        one.miss(".ag-ui-approval")


def test_a_run_of_another_conversation_is_never_opened_over_the_one_that_is_open(server, browser, visitor):
    here, _ = begin(visitor, server, ["this conversation"])
    there, run = begin(visitor, server, ["that conversation"], ["forked"])
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{url(server, here)}?resume={run}")
        tab.see(".ag-ui-target", "goes on from this run")
        tab.see(TEXT, "this conversation")
        say(tab, ["on top of that"])
        tab.see("dialog", "another conversation")
        press(tab, "Close")
        tab.see(f"{PROMPT}:focus")
        press(tab, "Send")
        tab("click", 'dialog button:text-is("Fork into a new conversation")')
        tab.see(TEXT, "on top of that")
        forked = tab("url").rstrip("/").rpartition("/")[2]
        assert forked not in (here, there)
        assert tab.texts(TEXT) == ["that conversation", "on top of that"]
        tab("goto", f"{url(server, here)}?resume={run}")
        say(tab, ["once more"])
        tab.see("dialog", "another conversation")
        press(tab, "Open its own conversation")
        tab.see(TEXT, "that conversation")
        assert tab("url") == url(server, there)
        for thread, said in ((here, 1), (there, 1)):
            _, shown = visitor.get(server, f"talk/threads/{thread}/")
            assert [message["role"] for message in shown["messages"]].count("user") == said


def test_a_run_without_a_conversation_store_is_resumed_and_forked_on_its_own_page(server, browser, visitor):
    _, run = begin(visitor, server, ["a first answer"], route="plain/")
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{server.url}/plain/ui/runs/{run}/")
        tab.see(TEXT, "a first answer")
        say(tab, ["a second answer"])
        tab.see(TEXT, "a second answer")
        tab.see(".ag-ui-run-state", "Finished.")
        assert tab.texts(TEXT) == ["a first answer", "a second answer"]
        press(tab, "Fork into a new conversation")
        tab.see(".ag-ui-target", "begins a new conversation")
        say(tab, ["a third answer"])
        tab.see(TEXT, "a third answer")
        ids = [row["thread_id"] for row in visitor.get(server, "plain/runs/")[1]["runs"]]
        assert [thread == ids[-1] for thread in ids] == [False, True, True]


MARKDOWN = """# A title

Some *text* with `code`, a [link](javascript:alert(1)) and a [good one](https://example.com/).

<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>

![a picture](https://example.com/picture.png)

1. one
2. two

| a | b |
|---|---|
| 1 | 2 |

```python
print("<b>")
```

The end."""


def test_C40_markdown_is_rendered_as_it_grows_and_what_is_in_it_does_nothing(server, browser, visitor):
    whole, grown = fresh("whole"), fresh("grown")
    begin(visitor, server, [MARKDOWN], thread=whole)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, whole))
        tab.see(f"{TEXT} p", "The end.")
        rendered = tab("innerHTML", TEXT)
        begin(visitor, server, [spell(MARKDOWN)], thread=grown)
        other = profile.open(url(server, grown))
        other.see(".ag-ui-run-state", "Finished.")
        assert other("innerHTML", TEXT) == rendered
        assert tab.texts(f"{TEXT} h3, {TEXT} em, {TEXT} li, {TEXT} td") == ["A title", "text", "one", "two", "1", "2"]
        hrefs = "[...document.querySelectorAll('.ag-ui-text a')].map((link) => link.getAttribute('href'))"
        assert tab("evaluate", hrefs) == [None, "https://example.com/", "https://example.com/picture.png"]
        assert 'onerror="document' in tab.text(TEXT)
        assert tab("evaluate", "document.querySelectorAll('.ag-ui-text :is(img, script, style, iframe)').length") == 0
        assert tab("title") != "hacked"
        for each in (tab, other):
            assert each("faults") == []


READ = """[...document.querySelectorAll('.ag-ui-message')].map((message) => [
    message.dataset.role,
    message.querySelector('.ag-ui-speaker, summary').textContent,
    ...[...message.querySelectorAll('.ag-ui-text, code, pre, strong:not([hidden])')].map((part) => part.textContent),
].map((text) => text.replace(/\\s+/g, '')).filter(Boolean))"""


def test_a_conversation_reads_without_javascript_as_with_it(server, browser, visitor, gates):
    first, second, thread = fresh("first"), fresh("second"), fresh("thread")
    gates.open(first)
    calls = [call("hold", call_id="c1", gate=first), call("plan", call_id="c2", step="<b>one</b>")]
    _, run = begin(visitor, server, [think("hm"), "I plan", *calls], ["planned"], thread=thread)
    visitor.ended(run)
    # The model uses an id again.
    _, run = begin(visitor, server, [call("hold", call_id="c1", gate=second)], thread=thread)
    gates.wait_reached(second)
    visitor.cancel(server, run)
    with browser.profile(visitor) as profile, browser.profile(visitor, javaScriptEnabled=False) as plain:
        tab, other = profile.open(url(server, thread)), plain.open(url(server, thread))
        tab.see(".ag-ui-tool .ag-ui-unknown:not([hidden])")
        read = tab("evaluate", READ)
        assert other("evaluate", READ) == read
        marked = "Nobodyknowswhetherthishasacted."
        assert [marked in message for message in read] == [False] * (len(read) - 1) + [True]
        assert ["activity", "Activity:PLAN", '{"steps":["<b>one</b>"]}'] in read


def test_a_message_is_sent_once_and_what_is_written_meanwhile_stays(server, browser, visitor):
    thread, run = begin(visitor, server, ["a first answer"])
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "a first answer")
        tab("hold", "/talk/$")
        tab("fill", PROMPT, script(["a second answer"]))
        tab("press", PROMPT, "Control+Enter")
        tab("press", PROMPT, "Control+Enter")
        tab.see(TEXT, "a second answer")
        tab("fill", PROMPT, "and then")
        tab("release")
        tab.see('button:text-is("Send"):enabled')
        assert tab("inputValue", PROMPT) == "and then"
        assert len(tab("posts")) == 1


def test_what_is_learnt_late_of_runs_does_not_replace_what_is_known(server, browser, visitor, gates):
    within = fresh("within")
    thread, _ = begin(visitor, server, [call("hold", call_id="c1", gate=within)])
    gates.wait_reached(within)
    with browser.profile(visitor) as profile:
        tab = profile.open("about:blank")
        tab("hold", "thread_id")
        tab("goto", url(server, thread))
        tab.see(".ag-ui-tool[data-state=working]")
        assert len(tab("held")) == 1
        tab("click", ".ag-ui-stop")
        tab.see(".ag-ui-tool .ag-ui-unknown", "Nobody knows")
        tab("release")
        assert tab("isVisible", ".ag-ui-tool .ag-ui-unknown")


def test_the_focus_is_where_one_goes_on(server, browser, visitor, gates):
    within = fresh("within")
    thread, _ = begin(visitor, server, [call("hold", call_id="c1", gate=within)])
    gates.wait_reached(within)
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{url(server, thread)}#ag-ui-composer")
        tab.see(f".ag-ui-live {PROMPT}:focus")
        tab("focus", "button.ag-ui-stop")
        tab("press", "button.ag-ui-stop", "Enter")
        tab.see(".ag-ui-run-state", "Cancelled.")
        tab.see(f"{PROMPT}:focus")


def test_the_raw_events_are_the_log_and_can_be_downloaded(server, browser, visitor):
    thread, run = begin(visitor, server, ["an answer"])
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{url(server, thread)}?view=events")
        tab.see(".ag-ui-raw li", "RUN_FINISHED")
        tab.miss(".ag-ui-transcript")
        saved = tab("download", "text=Download as JSONL")
        assert saved["name"] == f"{run}.jsonl"
        assert saved["text"].encode().splitlines() == visitor.stored_log(run)
        press(tab, "Transcript")
        tab.see(TEXT, "an answer")
        assert parse_qs(urlsplit(tab("url")).query) == {}
        tab("goBack")
        tab.see(".ag-ui-raw li")


def test_C42_each_way_a_post_can_fail_is_told_and_the_message_stays_to_be_sent_again(server, browser, visitor):
    thread, _ = begin(visitor, server, [fail("secret-marker")])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(".ag-ui-run-state", "Failed:")
        assert "secret-marker" not in tab.text(".ag-ui-run-state")
        tab("evaluate", "document.getElementById('ag-ui-csrf').textContent = '\"wrong\"'")
        say(tab, ["never said"])
        tab.see(".ag-ui-alarm", "You may not do this")
        assert "never said" in tab("inputValue", "textarea[name=message]")
        assert tab("isEnabled", "text=Send")
        with request("DELETE", f"{server.url}/talk/threads/{thread}/", headers=visitor.headers) as response:
            assert response.status == 204
        tab.see(".ag-ui-alarm", "It is not there")
        tab("reload")
        tab.miss(".ag-ui-live")


def test_why_a_run_has_failed_is_told_in_the_language_of_the_page(server, browser, visitor):
    thread, _ = begin(visitor, server, ["an answer"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "an answer")
        known = json.dumps([["The run failed.", "Der Lauf ist gescheitert."]])
        tab("evaluate", f"document.getElementById('ag-ui-failures').textContent = {json.dumps(known)}")
        say(tab, [fail("no")])
        tab.see(".ag-ui-run-state", "Failed: Der Lauf ist gescheitert.")


def test_a_conversation_that_was_deleted_elsewhere_is_begun_anew_by_who_goes_on(server, browser, visitor):
    thread, run = begin(visitor, server, ["a first answer"])
    visitor.ended(run)
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "a first answer")
        with request("DELETE", f"{server.url}/talk/threads/{thread}/", headers=visitor.headers) as response:
            assert response.status == 204
        tab.see(".ag-ui-alarm", "It is not there")
        say(tab, ["a new answer"])
        tab.see(TEXT, "a new answer")
        assert tab.texts(TEXT) == ["a new answer"]


def test_who_has_scrolled_back_stays_there_until_asked_to_jump_to_the_latest(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, _ = begin(visitor, server, ["a line\n\n" * 100, gate(middle), "a line\n\n" * 100 + "the last line"])
    with browser.profile(visitor) as profile:
        tab = profile.open(url(server, thread))
        tab.see(TEXT, "a line")
        tab("waitForFunction", "scrollY > 0")
        tab("evaluate", "scrollTo(0, 0)")
        tab.see(".ag-ui-latest")
        gates.open(middle)
        tab.see(".ag-ui-run-state", "Finished.")
        tab.see(TEXT, "the last line")
        assert tab("evaluate", "scrollY") == 0
        # A click of the mouse would have the button scrolled to first, which is all that it is for.
        tab("dispatchEvent", ".ag-ui-latest", "click")
        tab("waitForFunction", "scrollY > 0")
        tab.miss(".ag-ui-latest")
