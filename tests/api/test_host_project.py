"""Projects that are set up in ways of their own."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client, TestCase
from pytest_django import Settings
from rest_framework.settings import api_settings

from django_pydantic_agent.contrib.store.models import Run
from tests.api import urls
from tests.api.agents import GATES
from tests.api.posting import chunks, error, events, frames, parse, post, run_input, text_of

STREAM_ACCEPTS = [
    "text/event-stream",
    "*/*",
    "application/json",
    "",
    "text/event-stream;q=0.9, application/json",
    "image/png",
]
STREAMS = ["/agent/", "/agent/resume/source/", "/agent/fork/source/"]
MORE = [{"id": "u2", "role": "user", "content": "more"}]


@pytest.fixture
def source(client: Client) -> None:
    frames(post(client, "/agent/", "source"))


@pytest.mark.parametrize("accept", STREAM_ACCEPTS)
@pytest.mark.parametrize("url", STREAMS)
def test_C29_a_stream_is_never_a_406(client: Client, source: None, url: str, accept: str):
    assert events(post(client, url, "r1", MORE, headers={"Accept": accept}))[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("accept", STREAM_ACCEPTS)
def test_C29_errors_keep_their_status_and_come_as_json(client: Client, source: None, accept: str):
    headers = {"Accept": accept}
    assert error(post(client, "/agent/", "", headers=headers)) == (400, "invalid_input")
    assert error(post(Client(), "/token/", headers=headers)) == (401, "not_authenticated")
    assert error(post(Client(), "/agent/", headers=headers)) == (403, "not_authenticated")
    assert error(post(client, "/agent/resume/no/", headers=headers)) == (404, "not_found")
    assert error(client.get("/agent/", headers=headers)) == (405, "method_not_allowed")
    assert error(post(client, "/agent/", "source", "else", headers=headers)) == (409, "run_id_reused")
    assert client.get("/agent/runs/", headers=headers)["Content-Type"] == "application/json"


ODD = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "rest_framework.negotiation.DefaultContentNegotiation",
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "ALLOWED_VERSIONS": ["7"],
    "DEFAULT_VERSION": "8",
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 1,
    "EXCEPTION_HANDLER": "tests.api.test_host_project.refuse_to_handle",
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.DjangoModelPermissions"],
    "DEFAULT_METADATA_CLASS": "rest_framework.metadata.SimpleMetadata",
    "DATETIME_FORMAT": "%s",
    "UNICODE_JSON": False,
    "FORMAT_SUFFIX_KWARG": "run",
    "URL_FORMAT_OVERRIDE": "format",
    "UNAUTHENTICATED_USER": None,
}


def refuse_to_handle(exc: Exception, context: Any) -> None:
    raise AssertionError("the project's exception handler was called")


@pytest.fixture
def odd(settings: Settings) -> None:
    settings.REST_FRAMEWORK = ODD


def test_C29_the_project_s_own_rest_framework_settings_change_nothing(client: Client, odd: None, settings: Settings):
    assert api_settings.PAGE_SIZE == 1
    frames(post(client, "/agent/", "ä1", "hi"))
    frames(post(client, "/agent/", "r2", "hi"))
    answer = client.get("/agent/runs/?format=api")
    assert answer["Content-Type"] == "application/json"
    assert [run["run_id"] for run in answer.json()["runs"]] == ["r2", "ä1"]
    assert "ä1" in answer.content.decode()
    assert answer.json()["runs"][0]["started_at"].endswith("+00:00")
    assert error(client.get("/agent/runs/nothing/")) == (404, "not_found")
    assert error(Client().get("/agent/runs/")) == (403, "not_authenticated")
    settings.REST_FRAMEWORK = ODD | {"DEFAULT_PERMISSION_CLASSES": []}
    assert events(post(Client(), "/ephemeral/"))[-1]["type"] == "RUN_FINISHED"


def test_a_permission_class_of_the_project_may_read_the_data(client: Client, settings: Settings):
    settings.REST_FRAMEWORK = {"DEFAULT_PERMISSION_CLASSES": ["tests.api.test_host_project.SaysPlease"]}
    assert error(post(client, "/agent/", "r1", "hi")) == (403, "permission_denied")
    assert events(post(client, "/agent/", "r1", "hi", state={"please": True}))[-1]["type"] == "RUN_FINISHED"
    assert error(client.generic("POST", "/agent/", b"{", content_type="application/json")) == (400, "parse_error")


class SaysPlease:
    def has_permission(self, request: Any, view: Any) -> bool:
        return bool(request.data.get("state"))


def test_C30_middleware_that_compresses_and_caches_leaves_streams_alone(client: Client, settings: Settings):
    settings.MIDDLEWARE = [
        "django.middleware.cache.UpdateCacheMiddleware",
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        *settings.MIDDLEWARE,
        "django.middleware.cache.FetchFromCacheMiddleware",
    ]
    frames(post(client, "/agent/", "source", "x" * 1000))
    for url in [*STREAMS, STREAMS[0]]:
        response = post(client, url, url, MORE, headers={"Accept-Encoding": "gzip, br"})
        assert response.get("Content-Encoding") == "identity"
        assert response["Cache-Control"] == "no-cache, no-transform"
        assert not response.has_header("ETag")
        assert not response.has_header("Content-Length")
        assert frames(response)[-1].event["type"] == "RUN_FINISHED"
    before = client.get("/agent/runs/").json()
    frames(post(client, "/agent/", "another"))
    assert client.get("/agent/runs/").json() != before


def test_C34_atomic_requests_are_no_part_of_a_mount(client: Client, live: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    atomic = []
    urls.authorize.does = lambda request: not atomic.append(connection.in_atomic_block)
    stream = chunks(post(client, "/hooked/", "r1", "wait here"))
    assert atomic == [False]
    assert any(b"begun" in chunk for chunk in stream)
    assert client.get("/agent/runs/r1/").json()["status"] == "running"
    GATES["here"].open()
    assert parse(b"".join(stream))[-1].event["type"] == "RUN_FINISHED"
    assert Run.objects.get().status == "finished"
    assert error(client.get("/agent/nothing/")) == (404, "not_found")


@pytest.mark.parametrize("middleware", ["tests.api.middleware.synchronous", "tests.api.middleware.counting"])
@pytest.mark.django_db(transaction=True)
@pytest.mark.anyio
async def test_C03_middleware_under_asgi_holds_no_frame_back(live: None, settings: Settings, middleware: str):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, middleware]
    user = await User.objects.acreate_user("ada")
    browser = AsyncClient()
    await browser.aforce_login(user)
    response = await browser.post("/agent/", run_input("r1", "wait here"), content_type="application/json")
    content = aiter(response)
    assert parse(await anext(content))[0].event["type"] == "RUN_STARTED"
    GATES["here"].open()
    assert parse(b"".join([chunk async for chunk in content]))[-1].event["type"] == "RUN_FINISHED"


def test_login_required_middleware_leaves_the_answer_to_the_mount(db: None, settings: Settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert error(Client().get("/agent/runs/")) == (403, "not_authenticated")
    assert error(Client().get("/agent/nowhere/")) == (404, "not_found")


class InATestCase(TestCase):
    """What the tests of a project that use `TestCase` see."""

    def setUp(self) -> None:
        self.client.force_login(User.objects.create_user("ada"))

    def test_the_immediate_executor_just_works(self) -> None:
        assert text_of(events(post(self.client, "/agent/", "r1", "hi"))) == "echo hi"
        assert self.client.get("/agent/runs/r1/").json()["status"] == "finished"
        assert text_of(events(post(self.client, "/agent/resume/r1/", "r2", MORE))) == "echo more"

    def test_the_local_executor_says_what_to_do(self) -> None:
        with self.settings(DJANGO_PYDANTIC_AGENT={}), self.assertRaisesMessage(Exception, "ImmediateExecutor"):
            post(self.client, "/agent/", "r1", "hi")


@pytest.mark.parametrize(
    ("error_class", "status"),
    [("OperationalError", (503, "storage_unavailable")), ("DataError", (500, "internal_error"))],
)
def test_C28_a_store_that_fails_tells_nothing_about_itself(
    user: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error_class: str, status: Any
):
    from django import db

    from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise getattr(db, error_class)("secret-marker at db.internal:5432")

    browser = Client(raise_request_exception=False)
    browser.force_login(user)
    monkeypatch.setattr(DatabaseRunStore, "page", fail)
    monkeypatch.setattr(DatabaseRunStore, "create", fail)
    for response in (browser.get("/agent/runs/"), post(browser, "/agent/")):
        assert error(response) == status
        assert b"secret-marker" not in response.content
        assert response.has_header("Retry-After") == (status[0] == 503)
    assert "secret-marker" in caplog.text


def test_C28_what_a_model_raises_is_on_no_route(client: Client, caplog: pytest.LogCaptureFixture):
    body = b"".join(chunks(post(client, "/agent/", "r1", "fail")))
    shown = [body, client.get("/agent/runs/").content, client.get("/agent/runs/r1/").content]
    shown.append(b"".join(chunks(post(client, "/agent/", "r1", "fail"))))
    assert all(b"secret-marker" not in answer for answer in shown)
    assert parse(body)[-1].event["code"] == "internal_error"
    assert "secret-marker" in caplog.text
    assert "'r1'" in caplog.text


def test_an_unforeseen_error_reaches_the_error_reporting_of_the_project(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("django_ag_ui.api.runs.with_ledger", fail)
    with pytest.raises(ZeroDivisionError):
        client.get("/agent/runs/")


def test_a_body_is_what_the_digest_is_made_of(client: Client):
    spaced = json.dumps(run_input("r1"), indent=1)
    frames(client.post("/agent/", spaced, content_type="application/json"))
    assert error(post(client, "/agent/", "r1")) == (409, "run_id_reused")
