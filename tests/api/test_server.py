from typing import Any

import pytest
from pydantic_ai import Agent

from django_ag_ui import AGUIServer, CancelAfter, get_server
from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.policy.failure import FailurePolicy

registry = ToolRegistry()

OBJECTS = [
    "agent",
    "model_settings",
    "usage_limits",
    "model_for_request",
    "instructions_for_request",
    "context_for_request",
    "deps_factory",
    "toolsets",
    "capabilities",
    "step_store",
    "conversation_store",
    "title_for_thread",
    "failure_policy",
    "get_user",
    "authorize",
    "authentication_classes",
    "permission_classes",
    "throttle_classes",
    "config",
]


@pytest.mark.parametrize("name", OBJECTS)
def test_a_string_where_an_object_belongs_is_refused_by_name(name: str):
    arguments: dict[str, Any] = {"agent": registry} | {name: "path.to.Thing"}
    with pytest.raises(TypeError, match=name):
        AGUIServer(**arguments)


@pytest.mark.parametrize("name", ["toolsets", "capabilities", "permission_classes"])
def test_a_string_in_a_list_of_objects_is_refused_by_name(name: str):
    with pytest.raises(TypeError, match=name):
        AGUIServer(registry, **{name: ["path.to.Thing"]})


@pytest.mark.parametrize("name", ["attachment_store", "no_such_thing"])
def test_a_keyword_that_does_not_exist_is_refused_by_name(name: str):
    with pytest.raises(TypeError, match=name):
        AGUIServer(registry, **{name: object()})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_store", object()),
        ("conversation_store", object()),
        ("conversation_store", DefaultConversationStore),
        ("on_concurrent_run", "queue"),
        ("on_stale_client", None),
        ("client_history", True),
        ("on_orphan", "restart"),
        ("snapshot_save_mode", "round_trip"),
        ("on_client_disconnect", "stop"),
        ("on_client_disconnect", 30),
        ("client_disconnect_choices", "cancel"),
        ("client_disconnect_choices", ["cancel", "stop"]),
        ("client_disconnect_choices", [CancelAfter(3)]),
        ("client_disconnect_choices", None),
        ("failure_policy", None),
        ("failure_policy", FailurePolicy),
        ("get_user", 1),
        ("csrf_exempt", "no"),
        ("require_authenticated", None),
        ("run_timeout", "30"),
        ("run_timeout", 0),
        ("run_timeout", float("inf")),
        ("run_timeout", float("nan")),
        ("model", 4),
        ("instructions", 4),
        ("model_settings", ["temperature"]),
        ("usage_limits", {"request_limit": 3}),
        ("namespace", ""),
        ("namespace", "a:b"),
        ("executor", object()),
        ("config", {}),
        ("toolsets", 3),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: object):
    with pytest.raises((TypeError, ValueError), match=name):
        AGUIServer(registry, **{name: value})


@pytest.mark.parametrize("seconds", [0, -1, "30", True, None, float("inf"), float("nan")])
def test_CancelAfter_takes_a_number_of_seconds(seconds: Any):
    with pytest.raises((TypeError, ValueError), match="CancelAfter takes"):
        CancelAfter(seconds)


@pytest.mark.parametrize("source", [registry, Agent("test"), lambda: registry], ids=["registry", "agent", "callable"])
def test_anything_that_leads_to_an_agent_can_be_mounted(source: Any):
    patterns, app_name, namespace = AGUIServer(source).urls
    assert (app_name, namespace) == ("ag_ui", "ag_ui")
    assert [pattern.name for pattern in patterns] == ["agent", "tools", "run", "run-events", "run-cancel", None]


def test_a_step_store_mounts_the_routes_that_need_one():
    patterns, _, _ = AGUIServer(registry, step_store=lambda request: None).urls
    assert {"runs", "resume", "fork"} <= {pattern.name for pattern in patterns}


def test_a_conversation_store_mounts_the_routes_that_need_one():
    patterns, _, _ = AGUIServer(registry, conversation_store=DefaultConversationStore()).urls
    assert {"threads", "thread"} <= {pattern.name for pattern in patterns}
    assert "resume" not in {pattern.name for pattern in patterns}


def test_a_mounted_server_is_found_by_its_namespace():
    assert get_server("team").namespace == "team"
    with pytest.raises(LookupError, match="'nobody'"):
        get_server("nobody")


def test_no_secret_of_the_agent_shows_in_the_representation():
    assert repr(AGUIServer(registry, model_settings={"api_key": "sk-1"})) == "<AGUIServer 'ag_ui'>"
