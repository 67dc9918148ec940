"""The pages of a mount, through Django's client: what works without JavaScript."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from django_pydantic_agent.contrib.store.models import Run, Thread
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, frames, post
from tests.api.tabs import Tab
from tests.ui.reading import Visitor, read

pytestmark = pytest.mark.django_db


def facts(row) -> list[str]:
    return [node.text for node in row.one("p", class_="ag-ui-facts").children if not isinstance(node, str)]


def test_a_person_begins_a_conversation_finds_it_and_goes_on(user: User):
    visitor = Visitor(logged_in(user, enforce_csrf_checks=True), "/talk/ui/")
    assert visitor.page.one("p", class_="ag-ui-empty").text == "Nothing yet."
    visitor.send("Start", message="how warm is Oslo?")
    assert visitor.url.startswith("/talk/ui/threads/")
    assert visitor.said == ["how warm is Oslo?", "echo how warm is Oslo?"]
    visitor.go("/talk/ui/")
    (row,) = visitor.rows
    assert facts(row) == ["Finished", "just now", "1 turn"]
    assert row.one("a", class_="ag-ui-primary").text == "Resume"
    visitor.go(row.link("how warm is Oslo?")).send("Send", message="and Rome?")
    assert visitor.said[2:] == ["and Rome?", "echo and Rome?"]


def test_a_run_is_forked_into_a_new_conversation_that_names_its_source(client: Client):
    Tab(client).say("first question")
    visitor = Visitor(client, "/talk/ui/")
    visitor.go(visitor.rows[0].link("Fork")).send("Fork", message="another way")
    assert visitor.said == ["first question", "echo first question", "another way", "echo another way"]
    visitor.go("/talk/ui/")
    branch, source = visitor.rows
    assert facts(branch)[-1] == "branch of first question"
    assert source.link("first question") == "/talk/ui/threads/t1/"
    assert visitor.go(branch.link("Fork")).page.link("Open its conversation") == branch.all("a")[0]["href"]


def test_a_conversation_is_renamed_archived_taken_out_and_deleted(client: Client):
    Tab(client).say("old name")
    visitor = Visitor(client, "/talk/ui/")
    visitor.go(visitor.rows[0].link("Rename")).send("Rename", title="new name")
    assert visitor.page.one("h1").text == "new name"
    visitor.go("/talk/ui/").send("Archive")
    assert (visitor.url, visitor.rows) == ("/talk/ui/", [])
    visitor.go(visitor.page.link("Archived"))
    assert visitor.rows[0].link("new name")
    visitor.send("Take out of the archive")
    assert (visitor.url, visitor.rows) == ("/talk/ui/?archived=1", [])
    visitor.go("/talk/ui/")
    visitor.go(visitor.rows[0].link("Delete"))
    assert "new name" in visitor.page.one("h1").text
    visitor.send("Delete")
    assert (visitor.url, visitor.rows) == ("/talk/ui/", [])
    visitor.go("/talk/ui/threads/t1/", status=404)


def test_rows_say_how_each_run_does_and_what_to_do_with_it(live: None, client: Client):
    Tab(client, thread_id="going").send([{"id": "u1", "role": "user", "content": "wait gate"}])
    Tab(client, thread_id="asked").say("erase all")
    Tab(client, thread_id="failed").say("fail")
    Tab(client, thread_id="done").say("hello")
    visitor = Visitor(client, "/talk/ui/")
    shown = {
        row["data-id"]: (row.one("span", class_="ag-ui-pill").text, row.one("a", class_="ag-ui-primary").text)
        for row in visitor.rows
    }
    assert shown["done"] == ("Finished", "Resume")
    assert shown["asked"] == ("Waiting for you", "Answer")
    assert shown["failed"][0] == "Failed"
    assert shown["going"][1] == "Reattach"
    ids = [row["data-id"] for row in visitor.go(visitor.page.link("Failed")).rows]
    assert ids == ["failed"]
    assert visitor.page.one("nav", class_="ag-ui-chips").one(aria_current="true").text == "Failed"
    GATES["gate"].open()


def test_a_run_is_stopped_and_what_it_said_is_kept(live: None, client: Client):
    begun = chunks(post(client, "/talk/", "r1", "wait never"))
    while b"begun" not in next(begun):
        pass
    visitor = Visitor(client, "/talk/ui/threads/t1/")
    assert visitor.said == ["wait never", "begun"]
    visitor.send("Stop")
    assert visitor.url == "/talk/ui/threads/t1/"
    assert visitor.page.one("span", class_="ag-ui-pill").text == "Cancelled"
    assert visitor.said == ["wait never", "begun"]
    b"".join(begun)


@pytest.mark.parametrize("answer", ["approve", "deny"])
def test_what_a_run_asks_is_answered_on_the_page_once(client: Client, answer: str):
    Tab(client).say("erase all")
    visitor = Visitor(client, "/talk/ui/")
    visitor.go(visitor.rows[0].all("a", data_primary="")[0]["href"])
    form = visitor.page.one("form", class_="ag-ui-asked")
    assert form.one("legend").text == 'Approve erase({"name": "all"})?'
    fields = {node["name"]: node["value"] for node in form.all("input", type="hidden")}
    fields |= {form.all("input", type="radio")[0]["name"]: answer}
    first = client.post(visitor.url, fields)
    assert client.post(visitor.url, fields)["Location"] == first["Location"] == "/talk/ui/threads/t1/"
    assert Run.objects.count() == 2
    visitor.go("/talk/ui/threads/t1/")
    assert visitor.said == ["erase all", "erased"]
    result = visitor.page.one("details", class_="ag-ui-tool").all("pre")[-1].text
    assert (result == "all") is (answer == "approve")
    assert visitor.page.all("form", class_="ag-ui-asked") == []


def test_what_a_run_outside_of_threads_asks_is_answered_on_its_page(client: Client):
    frames(post(client, "/agent/", "r1", "erase all"))
    visitor = Visitor(client, "/agent/ui/")
    visitor.go(visitor.rows[0].all("a", data_primary="")[0]["href"])
    radio = visitor.page.all("input", type="radio")[0]
    visitor.send("Answer", **{radio["name"]: "approve"})
    assert visitor.said == ["erase all", "erased"]
    assert Run.objects.count() == 2


def test_C22_a_form_that_is_sent_twice_starts_one_run(client: Client):
    visitor = Visitor(client, "/talk/ui/")
    form = visitor.page.one("form", class_="ag-ui-composer")
    fields = {node["name"]: node["value"] for node in form.all("input")} | {"message": "once"}
    first = client.post("/talk/ui/", fields)
    assert client.post("/talk/ui/", fields)["Location"] == first["Location"]
    assert Run.objects.count() == 1
    client.post("/talk/ui/", fields | {"message": "other words"})
    assert Run.objects.count() == 2


def test_without_conversations_rows_are_runs_that_are_resumed_and_forked(client: Client):
    frames(post(client, "/agent/", "r1", "a question"))
    visitor = Visitor(client, "/agent/ui/")
    (row,) = visitor.rows
    assert [node.text for node in row.one("ul").all("a")] == ["Fork"]
    assert [node.text for node in row.one("ul").all("button")] == ["Copy id"]
    visitor.go(row.link("a question")).send("Resume", message="go on")
    assert visitor.said == ["a question", "echo a question", "go on", "echo go on"]
    assert Run.objects.latest("pk").thread_id == "t1"
    visitor.send("Fork", message="elsewhere")
    assert Run.objects.latest("pk").thread_id != "t1"
    visitor.go("/agent/ui/")
    assert facts(visitor.rows[1])[-1] == "branch of a question"


def test_the_list_is_searched_and_paged_in_the_query_string(client: Client, monkeypatch: pytest.MonkeyPatch):
    from django_ag_ui import build_ag_ui_config
    from django_ag_ui.server import get_server

    for number in range(5):
        Tab(client, thread_id=f"t{number}").say(f"question {number}")
    monkeypatch.setattr(get_server("talk"), "_config", build_ag_ui_config(thread_list_limit=2))
    visitor = Visitor(client, "/talk/ui/")
    seen = [row["data-id"] for row in visitor.rows]
    while older := [link["href"] for link in visitor.page.all("a", rel="next")]:
        seen += [row["data-id"] for row in visitor.go(older[0]).rows]
    assert seen == ["t4", "t3", "t2", "t1", "t0"]
    assert [row["data-id"] for row in visitor.go(visitor.page.link("Newest")).rows] == ["t4", "t3"]
    visitor.send("Search", q="question 3")
    assert [row["data-id"] for row in visitor.rows] == ["t3"]
    assert visitor.page.one("input", type="search")["value"] == "question 3"
    visitor.send("Search", q="nowhere")
    assert visitor.page.one("p", class_="ag-ui-empty").text == "Nothing here matches."


def test_a_page_of_50_out_of_10_000_takes_at_most_5_queries(
    client: Client, user: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    Tab(client, thread_id="first").say("a question")
    source = Run.objects.get()
    owned = {"owner": source.owner, "owner_digest": source.owner_digest, "partition_digest": source.partition_digest}
    now = source.created_at
    Thread.objects.bulk_create(
        Thread(**owned, thread_id=f"t{n}", thread_digest=f"{n:064}", title=f"title {n}", created_at=now, updated_at=now)
        for n in range(10_000)
    )
    Run.objects.bulk_create(
        Run(
            **owned,
            run_id=f"r{thread.pk}",
            run_digest=f"{thread.pk:064}",
            thread_digest=thread.thread_digest,
            in_thread=thread,
            turn=1,
            parent=source,
            status="finished",
            created_at=now,
        )
        for thread in Thread.objects.exclude(thread_id="first")
    )
    for query in ("", "?status=finished&q=title"):
        with django_assert_max_num_queries(5):
            response = client.get(f"/talk/ui/{query}")
        rows = read(response.content.decode()).all("li", class_="ag-ui-row")
        assert len(rows) == 50
        assert facts(rows[1])[-1] == "branch of a question"


def test_buttons_that_are_pressed_twice_act_once(client: Client):
    Tab(client, thread_id="kept").say("kept")
    Tab(client).say("gone")
    for _ in range(2):
        assert client.post("/talk/ui/threads/kept/archive/", {"archived": "1"})["Location"] == "/talk/ui/"
        assert client.post("/talk/ui/threads/t1/delete/")["Location"] == "/talk/ui/"
    assert Thread.objects.get().is_archived


@pytest.mark.parametrize(
    "query", ["status=bogus", "cursor=x", f"cursor={'A' * 5000}", "cursor=%00", "archived=maybe", f"q={'a' * 1001}"]
)
@pytest.mark.parametrize("mount", ["talk", "agent"])
def test_a_query_that_asks_for_nothing_there_is_gets_a_page_that_says_so(client: Client, mount: str, query: str):
    visitor = Visitor(client, f"/{mount}/ui/?{query}", status=400)
    visitor.go(visitor.page.link("Back to the list"))
    assert client.get(f"/{mount}/ui/rows/?{query}").status_code == 400


@pytest.mark.parametrize("query", ["q=%00", "q=%25", "q=_", "q=%27%22%5C", "q=%ff", "q=%E2%80%AE", "unknown=1"])
def test_no_text_to_search_for_does_harm(client: Client, query: str):
    Visitor(client, f"/talk/ui/?{query}")


@pytest.mark.parametrize(
    "thread", ["a/b", "..", "~x", "日本 語", "x" * 1000, "a?b#c", "%2e%2e", "%", "\u202egnp", "a\\b"]
)
def test_the_pages_of_any_thread_are_reached_from_the_list(client: Client, stranger: Client, thread: str):
    Tab(client, thread_id=thread).say("hello")
    visitor = Visitor(client, "/talk/ui/")
    for link in visitor.rows[0].all("a"):
        visitor.go(link["href"])
        assert stranger.get(link["href"]).status_code == 404
    visitor.go("/talk/ui/")
    visitor.go(visitor.rows[0].link("Rename")).send("Rename", title="\u202e<b>")
    assert visitor.page.one("h1").text == "\u202e<b>"


def test_a_title_is_no_longer_than_a_title_can_be(client: Client):
    Tab(client).say("hello")
    visitor = Visitor(client, "/talk/ui/threads/t1/rename/")
    longest = int(visitor.page.one("input", name="title")["maxlength"])
    visitor.send("Rename", title="x" * longest)
    assert visitor.page.one("h1").text == "x" * longest
    visitor.go("/talk/ui/threads/t1/rename/").send("Rename", title="x" * (longest + 1), status=400)
    assert visitor.page.one("p", role="alert").text


def test_somebody_elses_pages_are_like_those_that_do_not_exist(client: Client, stranger: Client):
    Tab(client).say("secret")
    run = Run.objects.get().run_id
    for foreign, unknown in [("threads/t1/", "threads/t2/"), (f"runs/{run}/", "runs/r2/")]:
        for more in ("", "rename/", "delete/") if "threads" in foreign else ("",):
            answers = [stranger.get(f"/talk/ui/{path}{more}") for path in (foreign, unknown)]
            assert {answer.status_code for answer in answers} == {404}
            assert answers[0].content == answers[1].content
    answers = [stranger.post(f"/talk/ui/threads/{thread}/delete/") for thread in ("t1", "t2")]
    assert [(answer.status_code, answer["Location"]) for answer in answers] == [(302, "/talk/ui/")] * 2
    assert Thread.objects.get().thread_id == "t1"
    assert Visitor(stranger, "/talk/ui/").rows == []


def test_who_is_not_logged_in_is_shown_where_to(db: None, settings):
    settings.LOGIN_URL = "/login/"
    visitor = Visitor(Client(), "/talk/ui/?q=a", status=403)
    assert visitor.page.link("Log in") == "/login/?next=/talk/ui/%3Fq%3Da"


def test_a_form_without_its_token_is_refused_on_a_page(user: User):
    client = logged_in(user, enforce_csrf_checks=True)
    response = client.post("/talk/ui/", {"message": "hello"})
    assert response.status_code == 403
    assert "CSRF" in response.content.decode()
    assert Run.objects.count() == 0


def test_a_form_leads_nowhere_else(client: Client):
    Tab(client).say("hello")
    response = client.post("/talk/ui/threads/t1/archive/", {"archived": "1", "next": "https://example.com/"})
    assert response["Location"] == "/talk/ui/"


@pytest.mark.parametrize("fields", [{"message": " "}, {"message": "hello", "nonce": "x"}])
def test_a_form_that_says_nothing_is_refused(client: Client, fields):
    assert client.post("/talk/ui/", fields).status_code == 400


PART = b'--b\r\nContent-Disposition: form-data; name="message"\r\n'
FILE = PART.replace(b'"\r\n', b'"; filename="a"\r\n')
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
UNREADABLE = {
    "no boundary": ("multipart/form-data", b"hello", 400),
    "a boundary of no ASCII": ("multipart/form-data; boundary=é", b"hello", 400),
    "bad base64": (MULTIPART, FILE + b"Content-Transfer-Encoding: base64\r\n\r\nabcde\r\n--b--\r\n", 400),
    "a long header": (MULTIPART, PART + b"X: " + b"x" * 9_000 + b"\r\n\r\nhello\r\n--b--\r\n", 400),
    "another charset": (f"{URLENCODED}; charset=utf-16", b"message=hello", 400),
    "a charset of no text": (f"{MULTIPART}; charset=hex", PART + b"\r\nhello\r\n--b--\r\n", 400),
    "a charset of nothing": (f"{MULTIPART}; charset=undefined", PART + b"\r\nhello\r\n--b--\r\n", 400),
    "too many fields": (URLENCODED, b"&".join([b"a=1"] * 1_001), 400),
    "too many fields in parts": (MULTIPART, (PART + b"\r\nhello\r\n") * 1_001 + b"--b--\r\n", 400),
    "too many files": (MULTIPART, (FILE + b"\r\na\r\n") * 101 + b"--b--\r\n", 400),
    "too much": (URLENCODED, b"message=" + b"x" * 3_000_000, 413),
    "too much in parts": (MULTIPART, PART + b"\r\n" + b"x" * 3_000_000 + b"\r\n--b--\r\n", 413),
}


@pytest.mark.parametrize(("content_type", "body", "status"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_form_that_cannot_be_read_is_refused_on_a_page(client: Client, content_type: str, body: bytes, status: int):
    Tab(client).say("hello")
    run = Run.objects.get().run_id
    threads = [f"threads/t1/{more}" for more in ("", "rename/", "archive/", "delete/")]
    for path in ("", f"runs/{run}/", f"runs/{run}/cancel/", *threads):
        response = client.generic("POST", f"/talk/ui/{path}", body, content_type=content_type)
        assert response.status_code == status
        assert read(response.content.decode()).one("p", role="alert").text
    assert (Run.objects.count(), Thread.objects.count()) == (1, 1)


def test_rows_alone_have_an_etag_that_follows_what_they_show(client: Client):
    Tab(client).say("hello")
    response = client.get("/talk/ui/rows/")
    assert b"<html" not in response.content
    assert client.get("/talk/ui/rows/", headers={"If-None-Match": response["ETag"]}).status_code == 304
    client.patch("/talk/threads/t1/", {"title": "renamed"}, content_type="application/json")
    assert client.get("/talk/ui/rows/", headers={"If-None-Match": response["ETag"]}).status_code == 200


NASTY = '</script><img src=x onerror="alert(1)">'


def test_C40_what_anybody_wrote_is_text_on_every_page(client: Client):
    tab = Tab(client, thread_id=NASTY)
    tab.say(NASTY)
    run = Run.objects.get()
    from django_ag_ui.api.paths import encode_id

    thread = f"/talk/ui/threads/{encode_id(NASTY)}/"
    urls = ["/talk/ui/", f"/talk/ui/runs/{run.run_id}/", thread, f"{thread}rename/", f"{thread}delete/"]
    for url in [*urls, f"/talk/ui/?q={NASTY}"]:
        page = Visitor(client, url).page
        assert page.all("img") == []
        assert all(node["type"] in ("module", "application/json") for node in page.all("script"))
        assert not [
            node for node in page.all() if any(name.startswith("on") or name == "style" for name in node.attributes)
        ]
    assert Visitor(client, thread).said[0] == NASTY
