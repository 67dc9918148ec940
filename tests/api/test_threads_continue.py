"""POST resume/<run>/ and fork/<run>/ on a mount with a conversation store."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_ag_ui.api.turns import ThreadPost
from django_pydantic_agent.contrib.store.models import Run, Thread
from tests.api.agents import model
from tests.api.conftest import logged_in
from tests.api.posting import error, events, frames, post, user_message
from tests.api.tabs import Tab, said
from tests.attached import check_attached


@pytest.fixture
def tab(client: Client) -> Tab:
    return Tab(client)


def talk(tab: Tab, *texts: str) -> list[str]:
    """Have a conversation; return the ids of its runs, which are `<thread>-<number>`."""
    runs = [f"{tab.thread_id}-{number}" for number in range(1, len(texts) + 1)]
    for text, run_id in zip(texts, runs, strict=True):
        tab.say(text, run_id=run_id)
    return runs


def go_on(tab: Tab, verb: str, source: str, run_id: str, messages: Any = "more", **fields: Any) -> Any:
    if isinstance(messages, str):
        messages = [user_message(messages, f"u-{run_id}")]
    return post(tab.client, f"{tab.mount}{verb}/{source}/", run_id, messages, thread_id=tab.thread_id, **fields)


def turns(*texts: str) -> list[str]:
    return [said for text in texts for said in (text, f"echo {text}")]


def heard() -> list[str]:
    parts = [part for message in model.requests[-1] for part in message.parts]
    return [part.content for part in parts if part.part_kind in ("user-prompt", "text")]


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_a_thread_is_never_overwritten_by_a_run_of_another(client: Client, verb: str):
    tab, other = Tab(client), Tab(client, thread_id="t2")
    talk(tab, "one")
    talk(other, "two")
    before = other.stored()
    response = go_on(other, verb, "t1-1", "new")
    assert (response.status_code, response["Content-Type"]) == (409, "application/json")
    assert response.json() == {
        "error": "resuming that run would overwrite this thread",
        "run_id": "t1-1",
        "thread_id": "t2",
    }
    assert other.stored() == before
    assert not Run.objects.filter(run_id="new").exists()


def test_without_a_conversation_store_nothing_is_refused(client: Client):
    frames(post(client, "/agent/", "r1", "one", thread_id="t1"))
    frames(post(client, "/agent/", "r2", "two", thread_id="t2"))
    assert frames(post(client, "/agent/resume/r1/", "r3", [user_message("more", "u3")], thread_id="t2"))


def test_the_last_run_goes_on_in_its_own_thread(tab: Tab):
    talk(tab, "one", "two")
    found = tab.take(go_on(tab, "resume", "t1-2", "new"))
    assert found[0]["parentRunId"] == "t1-2"
    thread = tab.stored("?superseded=1")
    assert said(thread["messages"]) == turns("one", "two", "more")
    assert thread["superseded"] == []
    assert thread["messages"] == tab.messages
    assert heard() == turns("one", "two", "more")[:-1]
    assert thread["revision"] == 6
    tab.say("again")
    assert heard() == turns("one", "two", "more", "again")[:-1]


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_continuing_an_earlier_run_keeps_the_later_turns_as_a_replaced_branch(tab: Tab, verb: str):
    talk(tab, "one", "two", "three", "four")
    tab.take(go_on(tab, verb, "t1-1", "new"))
    thread = tab.stored("?superseded=1")
    assert said(thread["messages"]) == turns("one", "more")
    (replaced,) = thread["superseded"]
    assert (replaced["replaced_by"], said(replaced["messages"])) == ("new", turns("two", "three", "four"))
    assert heard() == turns("one", "more")[:-1]
    assert tab.messages == thread["messages"]
    assert tab.client.get("/talk/threads/").json()["threads"][0]["turns"] == 2
    tab.say("again")
    assert heard() == turns("one", "more", "again")[:-1]
    assert Run.objects.count() == 6


def test_the_replaced_branch_can_be_gone_back_to(tab: Tab):
    talk(tab, "one", "two", "three")
    tab.take(go_on(tab, "resume", "t1-1", "new", "other"))
    tab.take(go_on(tab, "resume", "t1-3", "back", "four"))
    thread = tab.stored("?superseded=1")
    assert said(thread["messages"]) == turns("one", "two", "three", "four")
    assert [said(replaced["messages"]) for replaced in thread["superseded"]] == [turns("other")]
    assert heard() == turns("one", "two", "three", "four")[:-1]


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_a_new_thread_begins_with_the_conversation_up_to_its_source(client: Client, tab: Tab, verb: str):
    talk(tab, "one", "two", "three")
    before = tab.stored()
    branch = Tab(client, thread_id="t2")
    branch.take(go_on(branch, verb, "t1-2", "new"))
    thread = branch.stored()
    assert said(thread["messages"]) == turns("one", "two", "more")
    assert thread["messages"] == branch.messages
    assert thread["messages"][:4] == before["messages"][:4]
    assert heard() == turns("one", "two", "more")[:-1]
    assert (thread["title"], thread["revision"]) == ("one", 2)
    assert tab.stored() == before
    branch.say("again")
    assert heard() == turns("one", "two", "more", "again")[:-1]
    branch.messages = branch.messages[:-1]
    branch.take(branch.send())
    assert heard() == turns("one", "two", "more", "again")[:-1]


def test_a_new_thread_can_begin_with_a_branch_that_was_replaced(client: Client, tab: Tab):
    talk(tab, "one", "two", "three")
    tab.take(go_on(tab, "resume", "t1-1", "new", "other"))
    branch = Tab(client, thread_id="t2")
    branch.take(go_on(branch, "fork", "t1-3", "forked"))
    assert said(branch.stored()["messages"]) == turns("one", "two", "three", "more")
    assert heard() == turns("one", "two", "three", "more")[:-1]


def test_messages_that_the_conversation_holds_are_dropped_by_id(client: Client, tab: Tab):
    talk(tab, "one", "two", "three")
    new = user_message("more", "u-new")
    tab.take(go_on(tab, "resume", "t1-1", "r-own", [*tab.messages, new]))
    assert said(tab.stored()["messages"]) == turns("one", "more")
    other = Tab(client, thread_id="t2")
    talk(other, "uno", "dos")
    branch = Tab(client, thread_id="t3")
    branch.take(go_on(branch, "fork", "t2-2", "r-new", [other.messages[0], user_message("tres", "u-tres")]))
    assert said(branch.stored()["messages"]) == turns("uno", "dos", "tres")


def test_runs_from_before_there_were_conversations_go_on_in_one(client: Client):
    frames(post(client, "/agent/", "r1", "one"))
    frames(post(client, "/agent/resume/r1/", "r2", [user_message("two", "u2")]))
    tab = Tab(client)
    tab.take(go_on(tab, "resume", "r2", "r3"))
    thread = tab.stored()
    assert said(thread["messages"]) == turns("one", "two", "more")
    assert [message["role"] for message in thread["messages"]] == ["user", "assistant"] * 3
    assert thread["messages"] == tab.messages
    assert heard() == turns("one", "two", "more")[:-1]


def test_a_run_of_the_same_thread_id_that_the_conversation_does_not_hold_is_refused(client: Client):
    frames(post(client, "/agent/", "old", "before"))
    tab = Tab(client)
    talk(tab, "one")
    assert go_on(tab, "resume", "old", "new").status_code == 409


def test_the_same_resume_again_attaches_also_where_the_thread_has_begun_with_it(client: Client, tab: Tab):
    talk(tab, "one")
    branch = Tab(client, thread_id="t2")
    first = frames(go_on(branch, "fork", "t1-1", "new"))
    before, asked = branch.stored(), len(model.requests)
    check_attached(frames(go_on(branch, "fork", "t1-1", "new")), first)
    assert (branch.stored(), len(model.requests)) == (before, asked)


def test_a_used_run_id_is_refused_in_the_stream_and_changes_nothing(tab: Tab):
    talk(tab, "one", "two")
    before = tab.stored()
    started, refused = events(go_on(tab, "resume", "t1-2", "t1-1"))
    assert (started["type"], refused["code"]) == ("RUN_STARTED", "run_id_reused")
    assert tab.stored() == before


def test_foreign_and_unknown_sources_answer_alike_and_change_nothing(tab: Tab, stranger: Client):
    talk(tab, "one")
    thief = Tab(stranger, thread_id="t1")
    answers = [go_on(thief, "fork", source, "new") for source in ("t1-1", "unknown")]
    assert [error(answer) for answer in answers] == [(404, "not_found")] * 2
    assert answers[0].content == answers[1].content
    assert Thread.objects.count() == 1


def test_a_revision_can_be_made_a_condition(tab: Tab):
    talk(tab, "one")
    before = tab.stored()
    assert error(go_on(tab, "resume", "t1-1", "new", headers={"If-Match": '"1"'})) == (412, "precondition_failed")
    assert tab.stored() == before
    tab.take(go_on(tab, "resume", "t1-1", "new", headers={"If-Match": '"2"'}))


def test_C19_forks_in_other_threads_outlive_the_thread_they_come_from(client: Client, tab: Tab):
    talk(tab, "one", "add")
    threads: Sequence[Tab] = [Tab(client, thread_id="t2"), Tab(client, thread_id="t3")]
    threads[0].take(go_on(threads[0], "fork", "t1-2", "b"))
    threads[1].take(go_on(threads[1], "fork", "b", "c", "third"))
    before = [branch.stored() for branch in threads]
    assert client.delete(tab.url).status_code == 204
    assert [branch.stored() for branch in threads] == before
    rows = {row["run_id"]: row for row in client.get("/talk/runs/").json()["runs"]}
    assert set(rows) == {"b", "c"}
    assert all(row["continuable"] for row in rows.values())
    for branch, run_id in zip(threads, ("b", "c"), strict=True):
        branch.take(go_on(branch, "resume", run_id, f"{run_id}-on", "on"))
        branch.say("last")
        assert said(branch.stored()["messages"])[:1] == ["one"]
        assert heard()[0] == "one"
        assert heard()[-3:] == ["on", "echo on", "last"]


@pytest.mark.parametrize("thread_id", ["t1", "t2"])
@pytest.mark.parametrize("moment", ["view", "continuation"])
def test_a_source_that_is_deleted_while_it_is_continued_is_one_that_does_not_exist(
    live: None, user: User, monkeypatch: pytest.MonkeyPatch, thread_id: str, moment: str
) -> None:
    client = logged_in(user)
    b"".join(post(client, "/talk/", "r1", "hello", thread_id="t1"))
    real = getattr(ThreadPost, moment)

    def deleted_behind(self: ThreadPost, *args: Any, **keywords: Any) -> Any:
        found = real(self, *args, **keywords)
        logged_in(user).delete("/talk/threads/t1/")
        return found

    monkeypatch.setattr(ThreadPost, moment, deleted_behind)
    answer = post(client, "/talk/fork/r1/", "r2", [user_message("b", "u2")], thread_id=thread_id)
    assert error(answer) == (404, "not_found")
