"""The pages of a mount in Chromium: what their modules add, and what nobody may be kept out by."""

import json

import pytest

from django_ag_ui.api.paths import encode_id
from tests.browser.conversation import begin, say, url
from tests.live.scripts import call, fail, gate, script, spell
from tests.live.visitors import fresh

# What a browser shows is the same on every database, and comes late where others want the processor.
pytestmark = [pytest.mark.browser, pytest.mark.sqlite]

REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"


# What is shown beyond the edges of a narrow page.
BEYOND = """[...document.querySelectorAll("body *")].filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    return width && (left < 0 || right > 320) && !node.closest("pre, [hidden], .ag-ui-skip");
}).map((node) => node.outerHTML.slice(0, 100))"""


def row(thread):
    return f".ag-ui-row[data-id='{thread}']"


def test_no_page_keeps_anybody_out_light_or_dark_and_narrow(server, browser, visitor, gates):
    within = fresh("within")
    done, run = begin(visitor, server, ["# Heading\n\n| a | b |\n|---|---|\n| `code` | " + "long" * 100 + " |"])
    failed, _ = begin(visitor, server, [fail("secret")])
    asked, asking = begin(visitor, server, [call("order", call_id="c1", number=3)])
    going, _ = begin(visitor, server, [spell("so far "), gate(within), "end"])
    visitor.ended(run), visitor.ended(asking)
    gates.wait_reached(within)
    mount = f"{server.url}/talk/ui/"
    threads = [url(server, thread) for thread in (done, failed, asked, going)]
    pages = [mount, f"{mount}?q=nothing", *threads, f"{threads[0]}rename/", f"{threads[0]}delete/"]
    pages += [f"{mount}runs/{encode_id(run)}/", f"{server.url}/plain/ui/"]
    narrow = {"viewport": {"width": 320, "height": 640}, "reducedMotion": "reduce"}
    with browser.profile(visitor, **narrow) as profile:
        for page in pages:
            tab = profile.open(page)
            tab.see("h1")
            if page in threads:
                tab.see(".ag-ui-message[data-role=user]")
            assert tab("faults") == [], page
            assert tab("evaluate", "document.documentElement.scrollWidth") <= 320, page
            for scheme in ("light", "dark"):
                tab("emulateMedia", {"colorScheme": scheme})
                assert tab("violations") == [], (page, scheme)
            tab("close")


def test_a_conversation_is_begun_on_the_list_and_found_there(server, browser, visitor):
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{server.url}/talk/ui/")
        tab("fill", "textarea[name=message]", script(["an answer"]))
        tab("click", "button:text-is('Start')")
        tab.see(".ag-ui-run-state", "Finished.")
        say(tab, ["another answer"])
        tab.see(".ag-ui-text", "another answer")
        tab("click", "text=Back to the list")
        tab.see(".ag-ui-facts", "2 turns")
        assert tab("faults") == []


def test_rows_follow_their_runs_and_leave_focus_and_menus_alone(server, browser, visitor, gates):
    middle = fresh("middle")
    thread, run = begin(visitor, server, [spell("begun "), gate(middle), "ended"])
    gates.wait_reached(middle)
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{server.url}/talk/ui/")
        tab.see(f"{row(thread)} .ag-ui-pill", "Running")
        tab("click", f"{row(thread)} summary")
        gates.open(middle)
        visitor.ended(run)
        tab("evaluate", REFRESH)
        tab.see(f"{row(thread)} .ag-ui-pill", "Finished")
        tab.see(".ag-ui-news", "Finished")
        tab.see(f"{row(thread)} .ag-ui-menu a", "Rename")
        assert tab("evaluate", "document.activeElement.localName") == "summary"
        tab("evaluate", REFRESH)
        assert tab("faults") == []


def test_a_list_that_cannot_be_refreshed_says_so_and_tries_again(server, browser, visitor):
    thread, _ = begin(visitor, server, ["an answer"])
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{server.url}/talk/ui/")
        profile.set_offline(True)
        tab("evaluate", REFRESH)
        tab.see(".ag-ui-problem", "could not")
        tab.see(row(thread))
        tab("focus", ".ag-ui-news button")
        tab("evaluate", REFRESH)
        tab.see(".ag-ui-rows[aria-busy=false]")
        tab.see(".ag-ui-news button:focus")
        profile.set_offline(False)
        tab("click", "text=Try again")
        tab.miss(".ag-ui-problem")


@pytest.mark.parametrize("scripting", [True, False])
def test_resume_on_the_list_leads_into_the_composer(server, browser, visitor, scripting):
    thread, run = begin(visitor, server, ["an answer"])
    visitor.ended(run)
    with browser.profile(visitor, javaScriptEnabled=scripting) as profile:
        tab = profile.open(f"{server.url}/talk/ui/")
        tab("click", f"{row(thread)} [data-primary]")
        tab.see("textarea[name=message]:focus")
        tab("goBack")
        tab("click", f"{row(thread)} summary")
        tab("click", f"{row(thread)} a:text-is('Fork')")
        tab.see("textarea[name=message]:focus")


def test_a_list_whose_session_has_ended_says_so_and_leads_to_the_login(server, browser, visitor):
    with browser.profile(visitor) as profile:
        tab = profile.open(f"{server.url}/talk/ui/?q=a")
        browser.call(profile.name, "clearCookies")
        tab("evaluate", REFRESH)
        tab.see(".ag-ui-news", "logged out")
        assert tab("getAttribute", ".ag-ui-news a", "href") == "/accounts/login/?next=/talk/ui/%3Fq%3Da"


def test_pages_in_a_language_from_right_to_left_are_mirrored_and_narrow(start, browser, visitor):
    with start(settings_module="tests.browser.rtl_settings") as server:
        thread, run = begin(visitor, server, ["תשובה: ", "# כותרת\n\n- פריט"])
        asked, asking = begin(visitor, server, [call("order", call_id="c1", number=3)])
        visitor.ended(run), visitor.ended(asking)
        mount = f"{server.url}/talk/ui/"
        pages = [mount, url(server, thread), url(server, asked), f"{url(server, thread)}rename/"]
        with browser.profile(visitor, viewport={"width": 320, "height": 640}) as profile:
            for page in pages:
                tab = profile.open(page)
                tab.see("h1")
                if page == mount:
                    tab("click", f"{row(thread)} summary")
                if page in pages[1:3]:
                    tab.see(".ag-ui-live .ag-ui-message[data-role=user]")
                assert tab("evaluate", "getComputedStyle(document.body).direction") == "rtl"
                assert tab("evaluate", BEYOND) == [], page
                assert tab("evaluate", "document.documentElement.scrollWidth") <= 320, page
                assert (tab("violations"), tab("faults")) == ([], []), page
                tab("close")


def test_the_list_is_used_by_keys_alone(server, browser, visitor):
    first, _ = begin(visitor, server, ["an answer"])
    second, run = begin(visitor, server, ["an answer"])
    visitor.ended(run)

    def focused(tab):
        return tab("evaluate", "document.activeElement.closest('.ag-ui-row')?.dataset.id ?? null")

    with browser.profile(visitor, permissions=["clipboard-write", "clipboard-read"]) as profile:
        tab = profile.open(f"{server.url}/talk/ui/")
        tab.see(row(first))
        for key, wanted in [("j", second), ("j", first), ("j", first), ("k", second)]:
            tab("press", "body", key)
            assert focused(tab) == wanted
        tab("press", "body", "/")
        assert tab("evaluate", "document.activeElement.name") == "q"
        tab("press", "[name=q]", "j")
        assert tab("inputValue", "[name=q]") == "j"
        tab("press", "[name=q]", "Escape")
        assert focused(tab) == second
        tab("click", f"{row(second)} summary")
        tab("click", f"{row(second)} [data-copy]")
        tab.see(".ag-ui-news", "Copied.")
        assert tab("evaluate", "navigator.clipboard.readText()") == second
        tab("press", "body", "Escape")
        tab.miss(f"{row(second)} .ag-ui-menu ul")
        assert tab("evaluate", "document.activeElement.localName") == "summary"
        tab("press", "body", "r")
        tab.see(".ag-ui-run-state", "Finished.")
        assert json.loads(tab("evaluate", "JSON.stringify(location.pathname)")) == f"/talk/ui/threads/{second}/"
