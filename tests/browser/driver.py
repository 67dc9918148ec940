"""Chromium, driven through Node."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.servers import HOST
from tests.stock_client import NODE, install_clients

if TYPE_CHECKING:
    from tests.live.visitors import Visitor


class BrowserError(Exception):
    """What was asked of the browser did not work, or did not come about in time."""


class Browser:
    """One Chromium; `call` makes one of its objects do something."""

    def __init__(self) -> None:
        install_clients()
        chromium = shutil.which("chromium")
        assert chromium is not None
        command = ["node", "browser.mjs", chromium]
        self.process = subprocess.Popen(command, cwd=NODE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.names = count(1)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def call(self, on: str, do: str, *args: Any, name: str | None = None) -> Any:
        """Return what comes of a call, or keep it under `name`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"on": on, "do": do, "args": args, "as": name}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise BrowserError(f"{do}{args}: {answer['error']}")
        return answer.get("result")

    @contextmanager
    def profile(self, visitor: "Visitor", **options: Any) -> Iterator["Profile"]:
        """Open a browser profile of its own, in which a user is logged in; `options` are playwright's of a context."""
        name = f"profile{next(self.names)}"
        self.call("browser", "newContext", options, name=name)
        pairs = (pair.split("=", 1) for pair in visitor.headers["Cookie"].split("; "))
        cookies = [{"name": key, "value": value, "domain": HOST, "path": "/"} for key, value in pairs]
        self.call(name, "addCookies", cookies)
        try:
            yield Profile(self, name)
        finally:
            self.call(name, "close")

    def close(self) -> None:
        self.process.communicate(timeout=30)


@dataclass(frozen=True)
class Profile:
    browser: Browser
    name: str

    def open(self, url: str) -> "Tab":
        tab = Tab(self.browser, f"page{next(self.browser.names)}")
        self.browser.call(self.name, "newPage", name=tab.name)
        tab("goto", url)
        return tab

    def set_offline(self, offline: bool) -> None:
        self.browser.call(self.name, "setOffline", offline)


@dataclass(frozen=True)
class Tab:
    """A page; calling it makes it do something that playwright names."""

    browser: Browser
    name: str

    def __call__(self, do: str, *args: Any) -> Any:
        try:
            return self.browser.call(self.name, do, *args)
        except BrowserError as error:
            for what in (self.browser.call(self.name, "faults"), self.browser.call(self.name, "innerText", "body")):
                error.add_note(f"On the page: {what}")
            raise

    def see(self, selector: str, text: str = "") -> None:
        """Return once such an element with this text in it is visible."""
        self("waitForSelector", f"{selector}:has-text({json.dumps(text)})" if text else selector)

    def miss(self, selector: str) -> None:
        """Return once no such element is visible."""
        self("waitForSelector", selector, {"state": "hidden"})

    def text(self, selector: str) -> str:
        found: str = self("innerText", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        expression = "selector => [...document.querySelectorAll(selector)].map((found) => found.innerText.trim())"
        found: list[str] = self("evaluate", f"({expression})({json.dumps(selector)})")
        return found
