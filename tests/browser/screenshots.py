"""Take the pictures of docs/images from the example project, light and dark: `make screenshots`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.browser.driver import Browser, Profile, Tab
from tests.servers import HOST, ROOT, Server, free_port

PICTURES = ROOT / "docs" / "images"
SIZE = {"width": 760, "height": 560}
REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"
PROMPT = "textarea[name=message]"
WORKING = ".ag-ui-tool[data-state=working]"
RECOVERY_MILLISECONDS = 60_000


@contextmanager
def example(directory: Path, port: int, *, language: str = "en-us") -> Iterator[Server]:
    """Serve the example, whose slow tool takes longer than anybody waits."""
    database = str(directory / "example.sqlite3")
    env = {"EXAMPLE_DATABASE": database, "EXAMPLE_SLOW_SECONDS": "600", "EXAMPLE_LANGUAGE": language}
    env = os.environ | env
    for command in ("migrate", "demo_user"):
        subprocess.run([sys.executable, "manage.py", command], cwd=ROOT, env=env, check=True, capture_output=True)
    arguments = ["manage.py", "runserver", "--noreload", f"{HOST}:{port}"]
    server = Server(arguments, port=port, env=env, log_path=directory / "log")
    try:
        server.wait_until_accepting()
        yield server
    finally:
        server.kill()


def take(tab: Tab, name: str) -> None:
    """Take a picture of a page in both colour schemes."""
    for scheme in ("light", "dark"):
        tab("emulateMedia", {"colorScheme": scheme, "reducedMotion": "reduce"})
        tab("screenshot", {"path": str(PICTURES / f"{name}-{scheme}.png"), "fullPage": True})


@contextmanager
def asked(profile: Profile, mount: str, prompt: str, *, until: str) -> Iterator[Tab]:
    """Start a conversation on the list, and yield its page once it shows `until`.

    The page is closed behind it, for a browser opens no more than six connections to a server of HTTP/1.1.
    """
    tab = profile.open(f"{mount}ui/")
    tab("fill", PROMPT, prompt)
    tab("click", "button:text-is('Start')")
    tab.see(until)
    yield tab
    tab("close")


def before_the_crash(profile: Profile, mount: str) -> None:
    take(profile.open(f"{mount}ui/"), "list-empty")
    with asked(profile, mount, "Measure every pine of the park", until=WORKING):
        pass


def after_the_crash(profile: Profile, botanist: str, forester: str) -> None:
    crashed = profile.open(f"{botanist}ui/")
    crashed("waitForSelector", ".ag-ui-pill[data-state=orphaned]", {"timeout": RECOVERY_MILLISECONDS})
    crashed("click", ".ag-ui-name:has-text('Measure every pine')")
    crashed.see(".ag-ui-run-state", "crash")
    take(crashed, "conversation-crashed")
    crashed("close")
    with asked(profile, botanist, "Please fail", until="text=Failed:") as tab:
        take(tab, "conversation-failed")
    with asked(profile, botanist, "Measure a beech", until=WORKING) as tab:
        tab("click", "button.ag-ui-stop")
        tab.see(".ag-ui-run-state", "Cancelled.")
        tab.see(".ag-ui-unknown:not([hidden])")
        take(tab, "conversation-cancelled")
    with asked(profile, botanist, "Look up the oak and note it", until="text=Finished.") as tab:
        tab("click", ".ag-ui-tool summary")
        take(tab, "conversation-finished")
        tab("click", "button:text-is('Raw events')")
        take(tab, "conversation-events")
    with asked(profile, forester, "Plant 12 birch trees", until=".ag-ui-approval") as tab:
        take(tab, "conversation-asked")
        tab("goto", f"{forester}ui/")
        take(tab, "list-asked")
        tab("click", "[data-primary]")
        tab("click", "button:text-is('Approve')")
        tab.see(".ag-ui-run-state", "Finished.")
        take(tab, "conversation-answered")
    with asked(profile, botanist, "Look up the alder and measure it", until=WORKING) as tab:
        take(tab, "conversation-running")
        tab("fill", PROMPT, "And the willow")
        tab("press", PROMPT, "Control+Enter")
        tab.see(".ag-ui-notice", "It waits")
        take(tab, "conversation-queued")
        pages_of_a_list(profile, botanist)
        profile.set_offline(True)
        tab.see(".ag-ui-banner[data-phase=reconnecting]")
        take(tab, "conversation-reconnecting")
        profile.set_offline(False)
        tab.see(".ag-ui-banner[data-phase=resumed]")
        take(tab, "conversation-resumed")


def of_another_conversation(profile: Profile, mount: str, run: str) -> None:
    """Write behind a run of another conversation."""
    tab = profile.open(f"{mount}ui/")
    tab("click", ".ag-ui-name:has-text('Please fail')")
    tab.see(".ag-ui-run-state")
    tab("goto", f"{tab('url')}?resume={run}")
    tab.see(".ag-ui-target", "goes on from this run")
    tab("fill", PROMPT, "And the maple")
    tab("press", PROMPT, "Control+Enter")
    tab.see("dialog")
    take(tab, "conversation-other")


def pages_of_a_list(profile: Profile, mount: str) -> None:
    tab = profile.open(f"{mount}ui/")
    take(tab, "list")
    tab("click", ".ag-ui-row:has-text('Look up the oak') .ag-ui-menu summary")
    take(tab, "list-menu")
    fork = tab("getAttribute", ".ag-ui-menu[open] >> text=Fork", "href")
    for page in ("Rename", "Delete"):
        tab("click", f".ag-ui-menu[open] >> text={page}")
        take(tab, page.lower())
        tab("goBack")
        tab("click", ".ag-ui-row:has-text('Look up the oak') .ag-ui-menu summary")
    tab("goto", mount.removesuffix("/agent/") + fork)
    tab.see(".ag-ui-run-state")
    take(tab, "fork")
    of_another_conversation(profile, mount, run=parse_qs(urlsplit(fork).query)["fork"][0])
    for name, path in {"list-nothing": "?q=maple", "list-archived": "?archived=1", "refused": "threads/none/"}.items():
        tab("goto", f"{mount}ui/{path}")
        take(tab, name)
    tab("goto", f"{mount}ui/")
    profile.set_offline(True)
    tab("evaluate", REFRESH)
    tab.see(".ag-ui-problem")
    take(tab, "list-offline")
    profile.set_offline(False)


def from_right_to_left(profile: Profile, mount: str) -> None:
    tab = profile.open(f"{mount}ui/")
    take(tab, "list-rtl")
    tab("click", ".ag-ui-name:has-text('Look up the oak')")
    tab.see(".ag-ui-run-state")
    take(tab, "conversation-rtl")


def after_the_logout(browser: Browser, profile: Profile, mount: str) -> None:
    tab = profile.open(f"{mount}ui/")
    cookies = browser.call(profile.name, "cookies")
    browser.call(profile.name, "clearCookies")
    tab("evaluate", REFRESH)
    tab.see(".ag-ui-problem")
    take(tab, "list-logged-out")
    browser.call(profile.name, "addCookies", cookies)


def admin(profile: Profile, base: str) -> None:
    tab = profile.open(f"{base}/admin/django_pydantic_agent_store/run/")
    tab("setViewportSize", {"width": 1800, "height": 700})
    take(tab, "admin-runs")
    tab("setViewportSize", {"width": 1000, "height": 700})
    tab("click", "#result_list tr:has-text('Measure every pine') th a")
    tab.see(".dpa-unknown", "crash")
    take(tab, "admin-run")
    tab("click", ".dpa-unknown a:text-is('Settle')")
    tab("check", "input[value=did_not_happen]")
    tab("fill", "textarea[name=note]", "The tape measure never left the shed.")
    take(tab, "admin-settle")
    tab("close")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    port = free_port()
    base = f"http://{HOST}:{port}"
    with tempfile.TemporaryDirectory() as directory, closing(Browser()) as browser:
        browser.call("browser", "newContext", {"viewport": SIZE}, name="demo")
        profile = Profile(browser, "demo")
        with example(Path(directory), port):
            profile.open(base).see("h1", "Notebook")
            before_the_crash(profile, f"{base}/agent/")
        with example(Path(directory), port):
            after_the_crash(profile, f"{base}/agent/", f"{base}/forester/")
            admin(profile, base)
            after_the_logout(browser, profile, f"{base}/agent/")
        with example(Path(directory), port, language="he"):
            from_right_to_left(profile, f"{base}/agent/")


if __name__ == "__main__":
    main()
