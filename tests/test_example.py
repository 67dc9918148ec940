import json
import re
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

import example_project.settings as example_settings
from example_project.notebook.agent import model_for_request
from example_project.notebook.models import Note

USED = [
    "ROOT_URLCONF",
    "TEMPLATES",
    "MIDDLEWARE",
    "SECURE_CSP",
    "LOGIN_URL",
    "LOGIN_REDIRECT_URL",
]


@pytest.fixture(autouse=True)
def example(settings, monkeypatch, transactional_db):
    """Serve the example with the settings that make it what it is, and without its pauses."""
    from example_project.notebook.script import model

    for name in USED:
        setattr(settings, name, getattr(example_settings, name))
    settings.DEBUG, settings.AGENT_MODEL, settings.SLOW_SECONDS = True, "", 0
    monkeypatch.setattr(model, "delay", 0)
    return settings


@pytest.fixture
def ada(client: Client) -> User:
    user = User.objects.create_user("ada")
    client.force_login(user)
    return user


def body(prompt: str, *, thread_id: str = "t1") -> dict[str, object]:
    return {
        "threadId": thread_id,
        "runId": str(uuid4()),
        "messages": [{"id": str(uuid4()), "role": "user", "content": prompt}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
    }


def stream(client: Client, url: str, posted: dict[str, object]) -> list[dict[str, object]]:
    response = client.post(url, posted, content_type="application/json")
    assert response.status_code == 200, response.content
    lines = b"".join(response.streaming_content).decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def said(events: list[dict[str, object]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def test_a_run_uses_the_three_tools_and_writes_the_note_of_its_user(client: Client, ada: User):
    events = stream(client, "/agent/", body("Look up the pine, measure it and note it"))
    called = [event["toolCallName"] for event in events if event["type"] == "TOOL_CALL_START"]
    results = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    note = Note.objects.get()
    assert called == ["look_up", "measure", "write_note"]
    assert sorted(results) == sorted(["pine: up to 40 metres", "pine: 37 metres", f"note {note.pk}: {note}"])
    assert (note.user, note.text) == (ada, "Look up the pine, measure it and note it")
    assert any(event["type"] == "REASONING_MESSAGE_CONTENT" for event in events)
    assert events[-1]["type"] == "RUN_FINISHED"
    assert said(events).endswith("This was turn 1 of our conversation.")


def test_the_list_offers_to_resume_and_fork_a_run(client: Client, ada: User):
    stream(client, "/agent/", body("Look up the oak"))
    (run,) = client.get("/agent/runs/").json()["runs"]
    assert (run["preview"], run["status"]) == ("Look up the oak", "finished")
    resumed = stream(client, run["links"]["resume"], body("And the birch"))
    forked = stream(client, run["links"]["fork"], body("And the beech", thread_id="t2"))
    assert "birch: up to 22 metres" in said(resumed)
    assert "This was turn 2" in said(resumed)
    assert "This was turn 2" in said(forked)
    parents = [row["parent_run_id"] for row in client.get("/agent/runs/").json()["runs"]]
    assert parents == [run["run_id"], run["run_id"], None]


def test_the_same_post_again_finds_the_run_and_starts_nothing(client: Client, ada: User):
    posted = body("Note the alder")
    first = stream(client, "/agent/", posted)
    assert stream(client, "/agent/", posted)[-1] == first[-1]
    assert Note.objects.count() == 1


def test_a_failing_run_says_so_without_the_reason(client: Client, ada: User):
    events = stream(client, "/agent/", body("Please fail"))
    assert events[-1]["type"] == "RUN_ERROR"
    assert "ink" not in events[-1]["message"]
    assert client.get("/agent/runs/").json()["runs"][0]["status"] == "failed"


def test_the_pages_of_both_agents_hold_nothing_inline_and_lead_to_each_other(client: Client, ada: User):
    stream(client, "/agent/", body("Look up the oak"))
    for url in ("/", "/agent/ui/", "/forester/ui/", "/agent/ui/threads/t1/"):
        response = client.get(url)
        page = response.content.decode()
        assert response["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        scripts = re.findall(r"<script[^>]*>", page)
        assert scripts
        assert all('src="/static/django_ag_ui/ui/' in tag or 'type="application/json"' in tag for tag in scripts)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|https?://", page)
        assert 'href="/forester/ui/"' in page
        assert ("Look up the oak" in page) == (url != "/forester/ui/")


def test_the_forester_asks_before_it_plants(client: Client, ada: User):
    events = stream(client, "/forester/", body("Plant 5 birch trees"))
    assert events[-1]["outcome"]["type"] == "interrupt"
    assert "Waiting for you" in client.get("/forester/ui/").content.decode()


def test_a_run_needs_a_login_and_the_token_of_the_page(client: Client, ada: User):
    assert Client().post("/agent/", body("hello"), content_type="application/json").status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    assert strict.post("/agent/", body("hello"), content_type="application/json").status_code == 403
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', strict.get("/").content.decode())[1]
    headers = {"X-CSRFToken": token}
    response = strict.post("/agent/", body("hello"), content_type="application/json", headers=headers)
    assert response.status_code == 200
    b"".join(response.streaming_content)


def test_the_demo_user_is_logged_in_by_the_page_while_debug_is_on(client: Client):
    call_command("demo_user")
    call_command("demo_user")
    response = client.get("/", follow=True)
    assert response.redirect_chain == [("/login/?next=/", 302), ("/", 302)]
    assert response.context["user"].username == "demo"
    assert client.get("/admin/").status_code == 200


def test_who_logs_out_stays_logged_out(client: Client):
    call_command("demo_user")
    client.get("/", follow=True)
    response = client.post("/logout/", follow=True)
    assert b"You are logged out" in response.content
    assert not response.context["user"].is_authenticated


def test_without_debug_the_login_page_asks_and_there_is_no_demo_user(client: Client, example):
    call_command("demo_user")
    example.DEBUG = False
    response = client.get("/", follow=True)
    assert response.redirect_chain == [("/login/?next=/", 302)]
    assert b'name="password"' in response.content
    with pytest.raises(CommandError, match="needs DEBUG"):
        call_command("demo_user")


def test_somebody_elses_next_page_is_not_followed(client: Client):
    call_command("demo_user")
    assert client.get("/login/?next=https://example.com/")["Location"] == "/"


def test_agent_model_takes_the_place_of_the_script(example):
    assert model_for_request(None).model_name == "scripted"
    example.AGENT_MODEL = "openai:gpt-5.2"
    assert model_for_request(None) == "openai:gpt-5.2"
