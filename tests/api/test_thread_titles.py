"""What a thread is called: its first message, what the mount's hook makes of it, or what a person says."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from django_pydantic_agent.runs.engine import stop_engine
from tests.api import urls
from tests.api.agents import GATES
from tests.api.posting import chunks, user_message
from tests.api.tabs import Tab


@pytest.fixture
def tab(client: Client) -> Iterator[Tab]:
    yield Tab(client, "/talk-titled/")
    urls.title.does = None


def rename(tab: Tab, title: str) -> None:
    assert tab.client.patch(tab.url, {"title": title}, content_type="application/json").status_code == 200


def test_a_hook_names_a_thread_once_its_first_turn_is_there(tab: Tab):
    seen = []

    def title(request: Any, messages: Any) -> str:
        seen.append(
            (request.run_id, [(message.role, message.content) for message in messages], tab.stored()["revision"])
        )
        return "About  greetings\n"

    urls.title.does = title
    tab.say("hi", run_id="r1")
    assert seen == [("r1", [("user", "hi"), ("assistant", "echo hi")], 2)]
    assert (tab.stored()["title"], tab.stored()["revision"]) == ("About greetings", 2)
    tab.say("more")
    assert len(seen) == 1


def test_a_hook_may_be_a_coroutine_function(tab: Tab):
    async def title(request: Any, messages: Any) -> str:
        return f"{len(messages)} messages"

    urls.title.does = title
    tab.say("hi")
    assert tab.stored()["title"] == "2 messages"


@pytest.mark.parametrize("title", [None, ""])
def test_without_a_title_the_first_message_is_it(tab: Tab, title: Any):
    urls.title.does = lambda request, messages: title
    tab.say("hi")
    assert tab.stored()["title"] == "hi"


def test_a_hook_that_fails_costs_the_title_and_nothing_else(tab: Tab, caplog: pytest.LogCaptureFixture):
    def title(request: Any, messages: Any) -> str:
        raise RuntimeError("no title")

    urls.title.does = title
    with caplog.at_level(logging.WARNING):
        assert tab.say("hi")[-1]["type"] == "RUN_FINISHED"
    assert "could not be given a title" in caplog.text
    assert tab.stored()["title"] == "hi"


def test_a_long_title_of_a_hook_is_cut(tab: Tab):
    urls.title.does = lambda request, messages: "x" * 1_000_000
    tab.say("hi")
    assert 900 < len(tab.stored()["title"]) <= 1_000


def test_a_hook_never_writes_over_a_persons_title(tab: Tab, live: None):
    urls.title.does = lambda request, messages: "made up"
    stream = chunks(tab.send([user_message("wait here", "u1")]))
    next(stream)
    rename(tab, "Mine")
    GATES["here"].open()
    list(stream)
    # The hook is part of the run.
    stop_engine()
    assert tab.stored()["title"] == "Mine"
