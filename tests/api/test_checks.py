from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import pytest
from django.core.checks import run_checks
from django.urls import path
from pytest_django import Settings

from django_ag_ui import AGUIServer, ScopedStepStore
from django_pydantic_agent import ToolRegistry

# Some checks of Django 6.1 ask the database.
pytestmark = pytest.mark.django_db


def found() -> list[tuple[str, str]]:
    return [(message.id, message.msg) for message in run_checks() if (message.id or "").startswith("django_ag_ui")]


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


def test_W001_runs_that_are_kept_in_memory(mount: Any, settings: Settings):
    mount(AGUIServer(ToolRegistry()))
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if "contrib.store" not in app]
    assert found() == [
        (
            "django_ag_ui.W001",
            "Runs live in the memory of one process: django_pydantic_agent.contrib.store is not installed.",
        )
    ]
