from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import pytest
from django.core.checks import run_checks
from django.urls import path
from pytest_django import Settings
from rest_framework.authentication import BasicAuthentication, SessionAuthentication
from rest_framework.permissions import IsAdminUser, IsAuthenticated
from rest_framework.throttling import SimpleRateThrottle

from django_ag_ui import AGUIServer, ScopedStepStore
from django_pydantic_agent import ToolRegistry

# Some checks of Django 6.1 ask the database.
pytestmark = pytest.mark.django_db


def found() -> list[tuple[str, str]]:
    return [(message.id, message.msg) for message in run_checks() if (message.id or "").startswith("django_ag_ui")]


class Unrated(SimpleRateThrottle):
    scope = "unrated"


@pytest.fixture
def mount(settings: Settings) -> Any:
    def mount(*servers: AGUIServer) -> None:
        urlconf = ModuleType("mounted")
        urlconf.urlpatterns = [path(f"{number}/", server.urls) for number, server in enumerate(servers)]
        settings.ROOT_URLCONF = urlconf

    return mount


def test_the_mounts_of_these_tests_raise_nothing():
    assert found() == []


def test_E001_settings_that_are_no_dictionary(settings: Settings):
    settings.DJANGO_AG_UI = ["RUN_LIST_LIMIT"]
    assert ("django_ag_ui.E001", "DJANGO_AG_UI must be a dictionary.") in found()


def test_E002_a_key_that_does_not_exist(settings: Settings):
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMT": 50, "WIBBLE": 1}
    assert found() == [
        ("django_ag_ui.E002", "DJANGO_AG_UI has no key 'RUN_LIST_LIMT'; did you mean 'RUN_LIST_LIMIT'?"),
        ("django_ag_ui.E002", "DJANGO_AG_UI has no key 'WIBBLE'."),
    ]


def test_E003_a_value_that_cannot_be_used(settings: Settings):
    settings.DJANGO_AG_UI = {"KEEP_ALIVE_SECONDS": "15"}
    assert found() == [("django_ag_ui.E003", "DJANGO_AG_UI['KEEP_ALIVE_SECONDS'] must be a number, not '15'.")]


def test_E003_a_number_without_end(settings: Settings):
    settings.DJANGO_AG_UI = {"MAX_STREAM_SECONDS": float("nan")}
    assert found() == [("django_ag_ui.E003", "DJANGO_AG_UI['MAX_STREAM_SECONDS'] must be finite, not nan.")]


def test_E004_two_servers_of_one_namespace(mount: Any):
    mount(AGUIServer(ToolRegistry()), AGUIServer(ToolRegistry()))
    assert ("django_ag_ui.E004", "2 AGUIServers share the namespace 'ag_ui'.") in found()


def test_E005_a_step_store_without_the_harness(mount: Any, monkeypatch: pytest.MonkeyPatch):
    mount(AGUIServer(ToolRegistry(), step_store=lambda request: None))
    monkeypatch.setattr(PathFinder, "find_spec", lambda *args, **kwargs: None)
    monkeypatch.delitem(__import__("sys").modules, "pydantic_ai_harness", raising=False)
    assert (
        "django_ag_ui.E005",
        "The AGUIServer 'ag_ui' has a step store, but pydantic-ai-harness is not installed.",
    ) in found()


def test_E006_stores_of_an_app_that_is_not_installed(mount: Any, settings: Settings):
    from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore

    mount(
        AGUIServer(ToolRegistry(), step_store=DefaultStepStore, namespace="plain"),
        AGUIServer(ToolRegistry(), step_store=ScopedStepStore(DefaultStepStore, scope="s"), namespace="scoped"),
        AGUIServer(ToolRegistry(), step_store=lambda request: None, namespace="foreign"),
    )
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if "contrib.store" not in app]
    app = "django_pydantic_agent.contrib.store"
    assert [message for check, message in found() if check == "django_ag_ui.E006"] == [
        f"The AGUIServer {namespace!r} keeps its steps or conversations in {app}, which is not installed."
        for namespace in ("plain", "scoped")
    ]


def test_E007_an_executor_that_does_not_exist(mount: Any):
    mount(AGUIServer(ToolRegistry(), executor="celery"))
    assert found() == [
        ("django_ag_ui.E007", "The AGUIServer 'ag_ui' names the executor 'celery', which does not exist.")
    ]


def test_E008_a_throttle_without_a_rate(mount: Any):
    mount(AGUIServer(ToolRegistry(), throttle_classes=[Unrated]))
    text = "The AGUIServer 'ag_ui' cannot use its throttle_classes: No default throttle rate set for 'unrated' scope"
    assert found() == [("django_ag_ui.E008", text)]


def test_E008_an_object_in_place_of_a_class(mount: Any):
    mount(AGUIServer(ToolRegistry(), permission_classes=[IsAuthenticated & IsAdminUser, IsAdminUser()]))
    text = "The AGUIServer 'ag_ui' cannot use its permission_classes: 'IsAdminUser' object is not callable"
    assert found() == [("django_ag_ui.E008", text)]


def test_W002_sessions_that_nobody_reads(mount: Any, settings: Settings):
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.endswith("AuthenticationMiddleware")]
    mount(
        AGUIServer(ToolRegistry(), authentication_classes=[SessionAuthentication]),
        AGUIServer(ToolRegistry(), authentication_classes=[BasicAuthentication], namespace="basic"),
        AGUIServer(ToolRegistry(), get_user=lambda request: None, namespace="hooked"),
        AGUIServer(ToolRegistry(), require_authenticated=False, namespace="public"),
    )
    assert found() == [
        (
            "django_ag_ui.W002",
            "The AGUIServer 'ag_ui' refuses everybody: users are known by their session, and MIDDLEWARE has no "
            "django.contrib.auth.middleware.AuthenticationMiddleware.",
        )
    ]


def test_W003_cookies_without_a_CSRF_check_are_found_before_a_deployment(mount: Any):
    mount(
        AGUIServer(ToolRegistry(), csrf_exempt=True, authentication_classes=[SessionAuthentication]),
        AGUIServer(ToolRegistry(), csrf_exempt=True, authentication_classes=[BasicAuthentication], namespace="basic"),
        AGUIServer(ToolRegistry(), authentication_classes=[SessionAuthentication], namespace="checked"),
    )
    assert found() == []
    deployed = [
        message.msg for message in run_checks(include_deployment_checks=True) if message.id == "django_ag_ui.W003"
    ]
    assert deployed == ["The AGUIServer 'ag_ui' is exempt from the CSRF check and knows users by their session."]


def test_W001_runs_that_are_kept_in_memory(mount: Any, settings: Settings):
    mount(AGUIServer(ToolRegistry()))
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if "contrib.store" not in app]
    assert found() == [
        (
            "django_ag_ui.W001",
            "Runs live in the memory of one process: django_pydantic_agent.contrib.store is not installed.",
        )
    ]
