"""C27: one CSRF policy for every unsafe route of a mount."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware, _get_new_csrf_string
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from django_pydantic_agent.contrib.store.models import Run
from tests.api import urls
from tests.api.conftest import logged_in
from tests.api.posting import error, frames, post, user_message

UNSAFE = ["", "resume/source/", "fork/source/"]


@pytest.fixture
def browser(user: User) -> Client:
    return logged_in(user, enforce_csrf_checks=True)


@pytest.fixture
def token(browser: Client, client: Client, user: User) -> str:
    frames(post(client, "/agent/", "source"))
    browser.cookies["csrftoken"] = token = _get_new_csrf_string()
    return token


def send(browser: Client, url: str, **headers: str) -> Any:
    return post(browser, url, "new", [user_message("more", "u2")], headers=headers)


@pytest.mark.parametrize("route", UNSAFE)
def test_C27_without_a_token_no_unsafe_route_does_anything(browser: Client, token: str, route: str):
    assert error(send(browser, f"/agent/{route}")) == (403, "csrf_failed")
    assert error(send(browser, f"/agent/{route}", **{"X-CSRFToken": "x" * 32})) == (403, "csrf_failed")
    assert not Run.objects.filter(run_id="new").exists()


@pytest.mark.parametrize("route", UNSAFE)
def test_C27_with_a_token_every_unsafe_route_works(browser: Client, token: str, route: str):
    assert frames(send(browser, f"/agent/{route}", **{"X-CSRFToken": token}))


@pytest.mark.parametrize("route", UNSAFE)
def test_C27_a_foreign_origin_is_refused_with_a_token_too(browser: Client, token: str, route: str):
    headers = {"X-CSRFToken": token, "Origin": "https://evil.example"}
    assert error(send(browser, f"/agent/{route}", **headers)) == (403, "csrf_failed")
    assert frames(send(browser, f"/agent/{route}", **headers | {"Origin": "http://testserver"}))


@pytest.mark.parametrize("route", UNSAFE)
def test_C27_an_exempt_mount_asks_for_no_token_anywhere(browser: Client, token: str, route: str):
    assert frames(send(browser, f"/exempt/{route}"))


def test_C27_the_token_may_live_in_the_session(browser: Client, token: str, settings: Settings):
    settings.CSRF_USE_SESSIONS = True
    session = browser.session
    session["_csrftoken"] = token
    session.save()
    assert error(send(browser, "/agent/")) == (403, "csrf_failed")
    assert frames(send(browser, "/agent/", **{"X-CSRFToken": token}))


def test_C27_a_refusal_is_no_event_stream_whatever_the_client_accepts(browser: Client, token: str):
    assert error(send(browser, "/agent/", Accept="text/event-stream")) == (403, "csrf_failed")


def test_C27_get_routes_need_no_token(browser: Client, token: str):
    for route in ("runs/", "runs/source/", "tools/"):
        assert browser.get(f"/agent/{route}").status_code == 200


def test_an_anonymous_visitor_needs_a_token_too(db: None):
    visitor = Client(enforce_csrf_checks=True)
    assert error(send(visitor, "/public/")) == (403, "csrf_failed")
    assert error(send(visitor, "/ephemeral/")) == (403, "csrf_failed")
    visitor.cookies["csrftoken"] = token = _get_new_csrf_string()
    assert frames(send(visitor, "/public/", **{"X-CSRFToken": token}))


def test_an_identity_of_get_user_is_cookie_borne(browser: Client, token: str):
    assert error(send(browser, "/hooked/")) == (403, "csrf_failed")
    urls.get_user.does = lambda request: User.objects.get(username="ada")
    assert error(send(browser, "/hooked/")) == (403, "csrf_failed")
    assert frames(send(browser, "/hooked/", **{"X-CSRFToken": token}))


def test_a_hook_that_looks_at_csrf_itself_does_not_switch_the_check_off(browser: Client, token: str):
    def get_user(request: HttpRequest) -> Any:
        CsrfViewMiddleware(lambda request: None).process_view(request, lambda: None, (), {})
        return request.user

    urls.get_user.does = get_user
    assert error(send(browser, "/hooked/")) == (403, "csrf_failed")


def test_a_header_that_no_browser_adds_by_itself_needs_no_token(user: User, token: str):
    script = Client(enforce_csrf_checks=True)
    assert frames(send(script, "/token/", Authorization="Name ada"))


def test_a_session_on_a_mount_that_also_takes_tokens_needs_one(browser: Client, token: str):
    assert error(send(browser, "/token/")) == (403, "csrf_failed")


def test_an_authenticator_that_reads_a_cookie_is_cookie_borne(user: User, token: str):
    browser = Client(enforce_csrf_checks=True)
    browser.cookies["login"] = "ada"
    assert error(send(browser, "/cookie/")) == (403, "csrf_failed")
    browser.cookies["csrftoken"] = token
    assert frames(send(browser, "/cookie/", **{"X-CSRFToken": token}))


def test_a_form_is_never_read_for_its_token(browser: Client, token: str):
    response = browser.post("/agent/", {"csrfmiddlewaretoken": token})
    assert error(response) == (403, "csrf_failed")


def test_a_forced_login_of_the_api_client_works(user: User, token: str):
    client = APIClient()
    client.force_authenticate(user)
    assert client.get("/agent/runs/source/").status_code == 200
