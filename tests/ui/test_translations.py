"""What the engine and the routes say in English, on the pages in the language of who looks at them."""

import json
from typing import Any

import pytest
from django.test import Client

from django_pydantic_agent.policy.failure import FAILURES
from tests.api.posting import error
from tests.api.tabs import Tab
from tests.translated import translate
from tests.ui.reading import Visitor, read

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def translated(monkeypatch: pytest.MonkeyPatch) -> None:
    translate(monkeypatch)


def test_why_a_run_has_failed_is_told_in_the_language_of_the_page_and_kept_in_english(client: Client):
    Tab(client).say("fail")
    visitor = Visitor(client, "/talk/ui/threads/t1/")
    assert visitor.page.one("p", class_="ag-ui-problem").text == "[The run failed.]"
    (row,) = client.get("/talk/runs/").json()["runs"]
    assert client.get(row["links"]["self"]).json()["error"] == {"code": "internal_error", "message": "The run failed."}


def test_the_modules_get_each_sentence_in_the_language_of_the_page(client: Client):
    Tab(client).say("hello")
    page = read(client.get("/talk/ui/threads/t1/").content.decode())
    sentences: list[Any] = json.loads(page.one("script", id="ag-ui-failures").text)
    assert dict(sentences) == {failure.message: f"[{failure.message}]" for failure in FAILURES}


@pytest.mark.parametrize(
    ("url", "form", "told"),
    [
        ("threads/unknown/", None, "[there is no such thread]"),
        ("runs/unknown/", None, "[there is no such run]"),
        ("threads/t1/", {"message": " "}, "[the message must not be empty]"),
        ("threads/t1/rename/", {"title": " "}, "[the title must not be empty]"),
    ],
)
def test_why_a_page_refuses_is_told_in_its_language(client: Client, url: str, form: dict[str, str] | None, told: str):
    Tab(client).say("hello")
    response = client.get(f"/talk/ui/{url}") if form is None else client.post(f"/talk/ui/{url}", form)
    assert read(response.content.decode()).one("p", class_="ag-ui-problem").text == told


def test_the_routes_answer_in_english(client: Client):
    answer = client.get("/talk/runs/unknown/")
    assert error(answer) == (404, "not_found")
    assert answer.json()["error"] == "there is no such run"
