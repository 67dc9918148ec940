"""Who is let in, and for how long a stream stays open."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.test import AsyncClient, Client
from django.utils.functional import SimpleLazyObject
from pytest_django import Settings

from django_pydantic_agent.contrib.store.models import Run
from tests.api import urls
from tests.api.agents import GATES
from tests.api.posting import chunks, error, events, parse, post, run_input, text_of

ROUTES = [
    ("post", ""),
    ("post", "resume/r1/"),
    ("post", "fork/r1/"),
    ("get", "runs/"),
    ("get", "runs/r1/"),
    ("get", "runs/r1/events/"),
    ("post", "runs/r1/cancel/"),
    ("get", "tools/"),
]


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_an_anonymous_request_is_refused_on_every_route(db: None, method: str, route: str):
    assert error(getattr(Client(), method)(f"/agent/{route}")) == (403, "not_authenticated")
    response = getattr(Client(), method)(f"/token/{route}")
    assert error(response) == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Name"


def test_bad_credentials_are_refused_as_the_authenticator_says(db: None):
    response = Client().get("/token/runs/", headers={"Authorization": "Name nobody"})
    assert error(response) == (401, "authentication_failed")


@pytest.mark.parametrize(("method", "route"), ROUTES)
@pytest.mark.parametrize("is_async", [False, True])
def test_authorize_is_asked_on_every_route(client: Client, method: str, route: str, is_async: bool):
    async def never(request: HttpRequest) -> bool:
        return False

    urls.authorize.does = never if is_async else lambda request: False
    response = getattr(client, method)(f"/hooked/{route}", {}, content_type="application/json")
    assert error(response) == (403, "permission_denied")
    assert not Run.objects.exists()


@pytest.mark.parametrize("answer", [None, 0, ""])
def test_authorize_lets_in_on_a_true_answer_only(client: Client, answer: Any):
    urls.authorize.does = lambda request: answer
    assert error(client.get("/hooked/runs/")) == (403, "permission_denied")


def hooks() -> Iterator[tuple[str, Any]]:
    async def asynchronous(request: HttpRequest) -> Any:
        return await User.objects.aget(username="ada")

    async def lazily(request: HttpRequest) -> Any:
        return SimpleLazyObject(lambda: User.objects.get(username="ada"))

    async def from_request(request: HttpRequest) -> Any:
        return request.user if request.user.is_authenticated else None

    yield "plain", lambda request: User.objects.get(username="ada")
    yield "lazy", lambda request: SimpleLazyObject(lambda: User.objects.get(username="ada"))
    yield "session", lambda request: request.user
    yield "asynchronous", asynchronous
    yield "asynchronous and lazy", lazily
    yield "asynchronous session", from_request
    yield "asynchronous behind a lambda", lambda request: asynchronous(request)


HOOKS = dict(hooks())


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS.keys())
def test_C32_get_user_may_be_synchronous_or_not_and_lazy(client: Client, hook: Any):
    urls.get_user.does = hook
    seen = []
    urls.authorize.does = lambda request: seen.append(request.user) or True
    assert events(post(client, "/hooked/", "r1"))[-1]["type"] == "RUN_FINISHED"
    assert [type(user) for user in seen] == [User]
    assert [run["run_id"] for run in client.get("/hooked/runs/").json()["runs"]] == ["r1"]


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS.keys())
@pytest.mark.django_db(transaction=True)
@pytest.mark.anyio
async def test_C32_hooks_work_under_asgi_with_a_real_login(live: None, hook: Any):
    await User.objects.acreate_user("ada", password="pw")
    browser = AsyncClient()
    assert await browser.alogin(username="ada", password="pw")
    urls.get_user.does = hook
    body = run_input("r1", "hi")
    response = await browser.post("/hooked/", body, content_type="application/json")
    found = [frame.event for frame in parse(b"".join([chunk async for chunk in response]))]
    assert text_of(found) == "echo hi"


@pytest.mark.parametrize("nobody", [None, AnonymousUser(), User(username="ghost", is_active=False)])
def test_get_user_may_find_nobody(client: Client, nobody: Any):
    urls.get_user.does = lambda request: nobody
    assert error(client.get("/hooked/runs/")) == (403, "not_authenticated")


def test_a_hook_that_fails_lets_nobody_in(user: User):
    browser = Client(raise_request_exception=False)
    browser.force_login(user)

    def fail(request: HttpRequest) -> Any:
        raise ValueError("secret-marker")

    urls.authorize.does = fail
    response = browser.get("/hooked/runs/")
    assert error(response) == (500, "internal_error")
    assert b"secret-marker" not in response.content


def permission_lost(user: User, browser: Client) -> None:
    user.user_permissions.clear()


def deactivated(user: User, browser: Client) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def logged_out(user: User, browser: Client) -> None:
    browser.logout()


def password_changed(user: User, browser: Client) -> None:
    user.set_password("another")
    user.save()


@pytest.mark.parametrize("change", [permission_lost, deactivated, logged_out, password_changed])
def test_an_open_stream_ends_when_its_viewer_would_not_be_let_in_any_more(
    client: Client, user: User, live: None, settings: Settings, change: Any
):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    user.user_permissions.add(Permission.objects.get(codename="view_session"))
    urls.authorize.does = lambda request: request.user.has_perm("sessions.view_session")
    stream = chunks(post(client, "/hooked/", "r1", "wait here"))
    assert any(b"begun" in chunk for chunk in stream)
    change(user, client)
    rest = parse(b"".join(stream))
    assert [frame.event["code"] for frame in rest if frame.event] == ["access_revoked"]
    assert rest[-1].id is None
    assert Run.objects.get().status == "running"


def test_an_open_stream_ends_with_its_viewer_whose_runs_are_erased(client: Client, user: User, live: None):
    stream = chunks(post(client, "/agent/", "r1", "wait here"))
    assert any(b"begun" in chunk for chunk in stream)
    user.delete()
    assert not any(b"RUN_FINISHED" in chunk and b"success" in chunk for chunk in stream)
    assert not Run.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.anyio
async def test_an_open_stream_under_asgi_ends_with_its_session(live: None, settings: Settings):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    user = await User.objects.acreate_user("ada")
    browser = AsyncClient()
    await browser.aforce_login(user)
    response = await browser.post("/agent/", run_input("r1", "wait here"), content_type="application/json")
    content = aiter(response)
    await anext(content)
    await Session.objects.all().adelete()
    rest = parse(b"".join([chunk async for chunk in content]))
    assert rest[-1].event["code"] == "access_revoked"


def test_a_stream_of_a_visitor_ends_with_the_bucket(live: None, settings: Settings):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    stream = chunks(post(Client(), "/public/", "r1", "wait here"))
    assert any(b"begun" in chunk for chunk in stream)
    Session.objects.all().delete()
    assert parse(b"".join(stream))[-1].event["code"] == "access_revoked"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_viewer_that_is_still_allowed_sees_the_end(client: Client, live: None, settings: Settings, is_async: bool):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    asked = []

    def allow(request: HttpRequest) -> bool:
        asked.append(type(request.user))
        return True

    async def allow_later(request: HttpRequest) -> bool:
        return allow(request)

    urls.authorize.does = allow_later if is_async else allow
    stream = chunks(post(client, "/hooked/", "r1", "wait here"))
    while len(asked) < 4:
        next(stream)
    GATES["here"].open()
    assert parse(b"".join(stream))[-1].event["type"] == "RUN_FINISHED"
    assert set(asked) == {User}


@pytest.mark.parametrize("headers", [{"Authorization": "Name ada"}])
def test_a_token_is_checked_again_too(user: User, live: None, settings: Settings, headers: dict[str, str]):
    settings.DJANGO_AG_UI = {"ACCESS_RECHECK_SECONDS": 0.05, "KEEP_ALIVE_SECONDS": 0.02}
    stream = chunks(post(Client(), "/token/", "r1", "wait here", headers=headers))
    assert any(b"begun" in chunk for chunk in stream)
    deactivated(user, Client())
    assert parse(b"".join(stream))[-1].event["code"] == "access_revoked"
