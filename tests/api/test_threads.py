"""GET threads/, and GET, PATCH and DELETE threads/<thread>/."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.test import Client

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import Run, RunFrames, Thread, ThreadMessage
from django_pydantic_agent.runs.engine import stop_engine
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, error, events, frames, parse, post, user_message
from tests.api.tabs import Tab, said


@pytest.fixture
def tab(client: Client) -> Tab:
    return Tab(client)


def patch(client: Client, changes: Any, url: str = "/talk/threads/t1/", **headers: str) -> HttpResponseBase:
    return client.patch(url, changes, content_type="application/json", headers=headers)


def test_a_list_shows_the_owners_threads_with_the_published_keys_newest_first(client: Client, stranger: Client):
    Tab(client, thread_id="t1").say("how  warm\nis Oslo?")
    Tab(client, thread_id="t2").say("hi")
    Tab(stranger, thread_id="t3").say("secret")
    body = client.get("/talk/threads/").json()
    assert list(body) == ["threads", "next"]
    assert [row["thread_id"] for row in body["threads"]] == ["t2", "t1"]
    row = body["threads"][1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", row.pop("updated_at"))
    assert row == {
        "thread_id": "t1",
        "title": "how warm is Oslo?",
        "preview": "how warm is Oslo?",
        "revision": 2,
        "turns": 1,
        "archived": False,
        "active_run": None,
    }


def test_a_list_can_be_searched_paged_and_shows_archived_threads_apart(client: Client, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        Tab(client, thread_id=f"t{number}").say(f"question {number}")
    assert patch(client, {"archived": True}, "/talk/threads/t4/").status_code == 200
    assert patch(client, {"title": "Weather"}, "/talk/threads/t0/").status_code == 200

    def ids(query: str) -> list[str]:
        return [row["thread_id"] for row in client.get(f"/talk/threads/{query}").json()["threads"]]

    assert ids("") == ["t3", "t2", "t1", "t0"]
    assert ids("?archived=true") == ["t4"]
    assert ids("?archived=0") == ids("")
    assert ids("?q=weath") == ["t0"]
    assert ids("?q=question+2") == ["t2"]
    from django_ag_ui import build_ag_ui_config
    from django_ag_ui.server import get_server

    monkeypatch.setattr(get_server("talk"), "_config", build_ag_ui_config(thread_list_limit=3))
    first = client.get("/talk/threads/").json()
    rest = client.get("/talk/threads/", {"cursor": first["next"]}).json()
    assert [row["thread_id"] for row in [*first["threads"], *rest["threads"]]] == ["t3", "t2", "t1", "t0"]
    assert rest["next"] is None
    assert error(client.get("/talk/threads/?cursor=x")) == (400, "invalid_query")
    assert error(client.get("/talk/threads/?archived=perhaps")) == (400, "invalid_query")
    assert client.get("/talk/threads/", {"q": "a" * 1_000}).json()["threads"] == []
    assert error(client.get("/talk/threads/", {"q": "a" * 1_001})) == (400, "invalid_query")
    assert error(client.get("/talk/threads/", {"q": "a" * 100_000})) == (400, "invalid_query")


def test_a_thread_shows_the_messages_that_were_streamed_under_their_ids(tab: Tab):
    tab.say("hi")
    tab.say("add")
    thread = tab.stored()
    assert list(thread) == ["thread_id", "title", "revision", "messages", "state", "active_run", "interrupts"]
    assert thread["messages"] == tab.messages
    assert [message["role"] for message in thread["messages"]] == ["user", "assistant"] * 2 + ["tool", "assistant"]
    assert (thread["thread_id"], thread["title"], thread["revision"]) == ("t1", "hi", 4)
    assert (thread["state"], thread["active_run"], thread["interrupts"]) == ({}, None, [])


def test_the_revision_in_the_stream_is_that_of_the_thread(tab: Tab):
    first = tab.say("hi")
    second = tab.say("more")
    found = [event["metadata"]["django_ag_ui"]["revision"] for event in (first[0], first[-1], second[0], second[-1])]
    assert found == [1, 2, 3, 4]
    assert tab.stored()["revision"] == 4


def test_a_thread_has_an_etag_that_names_its_revision_and_changes_with_what_is_shown(tab: Tab):
    tab.say("hi")
    client, url = tab.client, tab.url
    seen = client.get(url)["ETag"]
    assert re.fullmatch(r'"2\.0\.[0-9a-f]+"', seen)
    again = client.get(url, headers={"If-None-Match": seen})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", seen)
    others = [client.get(url + "?superseded=1")["ETag"]]
    assert patch(client, {"title": "Mine"})["ETag"] == client.get(url)["ETag"]
    others.append(client.get(url)["ETag"])
    patch(client, {"archived": True})
    others.append(client.get(url)["ETag"])
    tab.say("more")
    others.append(client.get(url)["ETag"])
    assert len({seen, *others}) == 5
    assert all(etag.startswith('"2.0.') for etag in [seen, *others[:3]])
    assert client.get(url, headers={"If-None-Match": seen}).status_code == 200


def test_an_etag_is_that_of_one_owner_s_thread(client: Client, stranger: Client):
    for browser in (client, stranger):
        Tab(browser).say("hi")
    url = Tab(client).url
    seen = client.get(url)["ETag"]
    assert stranger.get(url, headers={"If-None-Match": seen}).status_code == 200
    assert client.delete(url).status_code == 204
    post(client, "/talk/", "again", [user_message("hi", "another")], thread_id="t1").getvalue()
    assert client.get(url, headers={"If-None-Match": seen}).status_code == 200


def test_a_rename_and_an_archive_leave_the_revision_and_show_in_runs_too(tab: Tab):
    tab.say("hi")
    (run,) = tab.client.get("/talk/runs/").json()["runs"]
    assert run["title"] == "hi"
    response = patch(tab.client, {"title": " My\n first  thread ", "archived": True})
    assert response.status_code == 200
    assert response.json() == tab.stored()
    assert (response.json()["title"], response.json()["revision"]) == ("My first thread", 2)
    assert tab.client.get("/talk/threads/?archived=1").json()["threads"][0]["title"] == "My first thread"
    assert tab.client.get("/talk/runs/").json()["runs"][0]["title"] == "My first thread"
    before = tab.client.get(f"/talk/runs/{run['run_id']}/")
    assert before.json()["title"] == "My first thread"
    patch(tab.client, {"title": "Other", "archived": False})
    after = tab.client.get(f"/talk/runs/{run['run_id']}/")
    assert (after.json()["title"], after["ETag"] == before["ETag"]) == ("Other", False)
    tab.say("more")
    assert tab.stored()["title"] == "Other"


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "x" * 1_000_000},
        {"title": "x" * 1_001},
        {"title": ""},
        {"title": " \n"},
        {"title": None},
        {"title": 1},
        {"archived": "yes"},
        {"archived": None},
        {"titel": "x"},
        {"title": "good", "revision": 7},
        {"title": "good", "archived": 1},
        [],
        "title",
        None,
    ],
)
def test_a_change_that_cannot_be_made_is_refused_whole(tab: Tab, changes: Any):
    tab.say("hi")
    before = tab.client.get(tab.url)["ETag"]
    assert error(patch(tab.client, json.dumps(changes))) == (400, "invalid_input")
    assert tab.client.get(tab.url)["ETag"] == before


def test_a_body_that_is_no_json_or_too_long_or_of_another_type_is_refused(tab: Tab):
    tab.say("hi")
    assert error(patch(tab.client, b"{")) == (400, "invalid_input")
    assert error(patch(tab.client, b"\xff\xfe")) == (400, "invalid_input")
    assert error(patch(tab.client, b"[" * 100_000)) == (400, "invalid_input")
    assert error(patch(tab.client, b'{"title": "%s"}' % (b"x" * 11 * 1024 * 1024))) == (413, "body_too_large")
    assert error(tab.client.patch(tab.url, b"{}", content_type="text/plain"))[0] == 415
    assert patch(tab.client, b"{}").status_code == 200


def test_a_known_revision_can_be_made_a_condition_of_a_change(tab: Tab):
    tab.say("hi")
    etag = tab.client.get(tab.url)["ETag"]
    for stale in ('"1.0.abc"', '"x"', "nonsense", '"1"', f'"{"2" * 5_000}"'):
        assert error(patch(tab.client, {"title": "x"}, **{"If-Match": stale})) == (412, "precondition_failed")
        assert error(tab.client.delete(tab.url, headers={"If-Match": stale})) == (412, "precondition_failed")
    for fitting in (etag, '"2"', f'"7.0.x", {etag}', "*", f"W/{etag}"):
        assert patch(tab.client, {"title": "x"}, **{"If-Match": fitting}).status_code == 200
    assert tab.client.delete(tab.url, headers={"If-Match": etag}).status_code == 204


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_a_condition_holds_until_the_change_is_made(tab: Tab, monkeypatch: pytest.MonkeyPatch, method: str):
    tab.say("hi")
    real = DefaultConversationStore.view

    def overtaken(self: DefaultConversationStore, **names: Any) -> Any:
        seen = real(self, **names)
        Thread.objects.update(revision=3)
        return seen

    monkeypatch.setattr(DefaultConversationStore, "view", overtaken)
    changes = {"title": "x", "archived": True}
    call = getattr(tab.client, method)
    answer = call(tab.url, changes, content_type="application/json", headers={"If-Match": '"2"'})
    assert error(answer) == (412, "precondition_failed")
    assert Thread.objects.values_list("title", "is_archived").get() == ("", False)


def test_unknown_and_foreign_threads_answer_alike_on_every_method(tab: Tab, stranger: Client):
    tab.say("hi")
    for client, url in ((stranger, tab.url), (tab.client, "/talk/threads/unknown/")):
        answers = [client.get(url), patch(client, {"title": "x"}, url), patch(client, b"{", url), client.delete(url)]
        assert [error(answer) for answer in answers] == [(404, "not_found")] * 4
        assert len({answer.content for answer in answers}) == 1
    assert tab.stored()["title"] == "hi"


def test_C16_two_owners_with_one_thread_id_never_meet(client: Client, stranger: Client):
    tabs = [Tab(client), Tab(stranger)]
    for tab, text in zip(tabs, ("mine", "yours"), strict=True):
        tab.say(text)
    assert [said(tab.stored()["messages"]) for tab in tabs] == [["mine", "echo mine"], ["yours", "echo yours"]]
    assert tabs[0].client.delete(tabs[0].url).status_code == 204
    assert said(tabs[1].stored()["messages"]) == ["yours", "echo yours"]


def test_ids_of_all_kinds_are_found_under_their_urls(client: Client):
    from django_ag_ui.api.paths import encode_id

    for thread_id in ("a/b", "..", "été", "a b", "~x", "x" * 1024):
        Tab(client, thread_id=thread_id).say("hi")
        found = client.get(f"/talk/threads/{encode_id(thread_id)}/")
        assert found.json()["thread_id"] == thread_id
    assert error(client.get("/talk/threads/A/")) == (404, "not_found")


def test_deleting_a_thread_deletes_all_of_it_and_nothing_else(client: Client):
    kept, tab = Tab(client, thread_id="kept"), Tab(client)
    kept.say("stay")
    tab.say("add")
    tab.say("more")
    assert client.delete(tab.url).status_code == 204
    assert error(client.get(tab.url)) == (404, "not_found")
    assert error(client.delete(tab.url)) == (404, "not_found")
    assert [row["thread_id"] for row in client.get("/talk/threads/").json()["threads"]] == ["kept"]
    assert [row["thread_id"] for row in client.get("/talk/runs/").json()["runs"]] == ["kept"]
    assert Thread.objects.count() == 1
    assert set(ThreadMessage.objects.values_list("thread__thread_id", flat=True)) == {"kept"}
    assert set(Run.objects.values_list("thread_id", flat=True)) == {"kept"}
    assert set(RunFrames.objects.values_list("run__thread_id", flat=True)) == {"kept"}
    tab.say("begun anew")
    assert tab.stored()["revision"] == 2


def test_deleting_a_thread_stops_its_run_which_writes_nothing_any_more(tab: Tab, live: None):
    stream = chunks(tab.send([{"id": "u1", "role": "user", "content": "wait here"}]))
    next(stream)
    assert tab.client.delete(tab.url).status_code == 204
    # Nobody opens the gate.
    assert not [frame for frame in parse(b"".join(stream)) if frame.event and frame.event["type"] == "RUN_FINISHED"]
    stop_engine()
    assert not Thread.objects.exists()
    assert not Run.objects.exists()
    assert not RunFrames.objects.exists()


@pytest.mark.parametrize(
    ("text", "mark", "partial"), [("wait here", b"begun", "begun "), ("hold here", b"TOOL_CALL_ARGS", "adding ")]
)
def test_a_reload_in_the_middle_of_a_turn_and_following_from_there_is_the_uncut_stream(
    tab: Tab, live: None, text: str, mark: bytes, partial: str
):
    tab.say("before")
    revision = tab.stored()["revision"]
    watcher = Tab(tab.client)
    tab.messages.append({"id": "u1", "role": "user", "content": text})
    stream = chunks(tab.send(run_id="r1"))
    found = b""
    while mark not in found:
        found += next(stream)
    (row,) = tab.client.get("/talk/threads/").json()["threads"]
    thread = tab.stored()
    assert (row["active_run"], thread["active_run"]["run_id"], thread["revision"]) == ("r1", "r1", revision + 1)
    assert said(thread["messages"]) == ["before", "echo before", text, partial]
    etag = tab.client.get(tab.url)["ETag"]
    assert etag.startswith(f'"{revision + 1}.')
    GATES["here"].open()
    log = parse(found + b"".join(stream))
    watcher.messages, watcher.state = thread["messages"], thread["state"]
    watcher.apply([frame.event for frame in log[thread["active_run"]["applied_seq"] :] if frame.event])
    tab.apply([frame.event for frame in log if frame.event])
    assert watcher.messages == tab.messages == tab.stored()["messages"]
    assert tab.stored()["active_run"] is None


def test_a_thread_shows_what_runs_have_replaced_when_it_is_asked_to(tab: Tab):
    tab.say("hi")
    kept = tab.messages[:1]
    first = tab.messages[1]
    found = tab.take(tab.send(kept))
    thread = tab.stored("?superseded=1")
    assert said(thread["messages"]) == ["hi", "echo hi"]
    assert thread["superseded"] == [{"replaced_by": found[0]["runId"], "messages": [first]}]
    assert "superseded" not in tab.stored()
    assert error(tab.client.get(tab.url + "?superseded=x")) == (400, "invalid_query")


def test_a_visitor_without_a_durable_identity_has_no_threads(db: None):
    visitor = Client()
    found = events(post(visitor, "/talk-members/", "r1", "hi"))
    assert found[-1]["type"] == "RUN_FINISHED"
    assert "metadata" not in found[0]
    assert visitor.get("/talk-members/threads/").json() == {"threads": [], "next": None}
    assert error(visitor.get("/talk-members/threads/t1/")) == (404, "not_found")
    assert error(patch(visitor, {"title": "x"}, "/talk-members/threads/t1/")) == (404, "not_found")
    assert error(visitor.delete("/talk-members/threads/t1/")) == (404, "not_found")
    assert not Thread.objects.exists()


def test_a_visitor_whose_conversations_are_not_kept_keeps_runs_only(db: None):
    visitor = Client()
    frames(post(visitor, "/talk-halves/", "r1", "hi"))
    assert [run["run_id"] for run in visitor.get("/talk-halves/runs/").json()["runs"]] == ["r1"]
    assert frames(post(visitor, "/talk-halves/resume/r1/", "r2", [user_message("more", "u2")]))
    assert visitor.get("/talk-halves/threads/").json()["threads"] == []
    assert not Thread.objects.exists()


def test_a_guest_with_a_bucket_keeps_threads_in_its_session(db: None):
    guest, other = Tab(Client(), "/talk-guests/"), Client()
    guest.say("hi")
    guest.say("more")
    assert said(guest.stored()["messages"]) == ["hi", "echo hi", "more", "echo more"]
    assert error(other.get(guest.url)) == (404, "not_found")


def test_a_scope_has_threads_of_its_own(client: Client):
    Tab(client).say("here")
    scoped = Tab(client, "/talk-scoped/")
    scoped.say("there")
    assert said(scoped.stored()["messages"]) == ["there", "echo there"]
    assert said(Tab(client).stored()["messages"]) == ["here", "echo here"]
    assert client.delete(scoped.url).status_code == 204
    assert Tab(client).stored()["revision"] == 2


def test_conversations_work_without_a_step_store(client: Client):
    tab = Tab(client, "/talk-plain/")
    tab.say("hi")
    tab.say("more")
    assert said(tab.stored()["messages"]) == ["hi", "echo hi", "more", "echo more"]
    assert error(client.get("/talk-plain/runs/")) == (404, "not_found")


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_C27_the_unsafe_routes_of_threads_ask_for_a_token(user: User, tab: Tab, method: str):
    tab.say("hi")
    browser = logged_in(user, enforce_csrf_checks=True)
    send = getattr(browser, method)
    assert error(send(tab.url, {}, content_type="application/json")) == (403, "csrf_failed")
    assert tab.stored()
    browser.cookies["csrftoken"] = token = "a" * 32
    answer = send(tab.url, {}, content_type="application/json", headers={"X-CSRFToken": token})
    assert answer.status_code in (200, 204)


def test_nobody_who_is_not_logged_in_sees_a_thread(tab: Tab):
    tab.say("hi")
    for answer in (Client().get("/talk/threads/"), Client().get(tab.url), Client().delete(tab.url)):
        assert answer.status_code == 403
        assert b"t1" not in answer.content


def test_other_methods_are_refused_by_name(tab: Tab):
    assert error(tab.client.put("/talk/threads/t1/")) == (405, "method_not_allowed")
    assert error(tab.client.post("/talk/threads/")) == (405, "method_not_allowed")
    assert tab.client.put("/talk/threads/t1/")["Allow"] == "GET, HEAD, PATCH, DELETE"


def waiting_run(user: User) -> Iterator[bytes]:
    """Start a run that waits at its gate, and return the rest of its stream."""
    stream = chunks(post(logged_in(user), "/talk/", "r1", "wait here"))
    assert any(b"begun" in chunk for chunk in stream)
    return stream


def test_a_viewer_of_a_run_in_a_deleted_thread_is_let_go(live: None, user: User):
    stream = waiting_run(user)
    assert logged_in(user).delete("/talk/threads/t1/").status_code == 204
    GATES["here"].open()
    ThreadPoolExecutor(1).submit(b"".join, stream).result(10)


def test_a_viewer_of_a_run_that_is_queued_in_a_deleted_thread_is_let_go(live: None, user: User):
    waiting_run(user)
    queued = chunks(post(logged_in(user), "/talk/", "r2", [user_message("b", "u2")]))
    assert b"RUN_STARTED" in next(queued)
    assert logged_in(user).delete("/talk/threads/t1/").status_code == 204
    ThreadPoolExecutor(1).submit(b"".join, queued).result(10)
