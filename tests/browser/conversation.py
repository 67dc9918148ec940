"""What the tests of a conversation do in a tab, and look at."""

from collections.abc import Sequence

from tests.browser.driver import Tab
from tests.live.scripts import Step, script
from tests.live.visitors import Visitor, fresh
from tests.servers import Server

TEXT = ".ag-ui-message[data-role=assistant] .ag-ui-text"

PROMPT = "textarea[name=message]"


def url(server: Server, thread: str) -> str:
    return f"{server.url}/talk/ui/threads/{thread}/"


def say(tab: Tab, *turns: Sequence[Step]) -> None:
    """Write a message that has the agent answer with these turns, and send it."""
    tab("fill", PROMPT, script(*turns))
    press(tab, "Send")


def begin(
    visitor: Visitor, server: Server, *turns: Sequence[Step], thread: str | None = None, route: str = "talk/"
) -> tuple[str, str]:
    """Start a run as another client would; return the ids of its thread and of the run."""
    thread, run = thread or fresh("thread"), fresh("run")
    visitor.post(server, run, script(*turns), route=route, thread_id=thread).close()
    return thread, run


def press(tab: Tab, label: str) -> None:
    tab("click", f'button:text-is("{label}")')
