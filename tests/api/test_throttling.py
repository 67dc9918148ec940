from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings
from rest_framework.throttling import ScopedRateThrottle, UserRateThrottle

from django_ag_ui import AGUIServer
from tests.api import urls
from tests.api.posting import error, frames, post


@pytest.fixture
def throttled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the main mount a throttle, with the rates of a project."""

    def throttled(throttle: type, **rates: str) -> None:
        monkeypatch.setattr(throttle, "THROTTLE_RATES", rates)
        server: AGUIServer = urls.urlpatterns[0].url_patterns[0].callback.initkwargs["server"]
        monkeypatch.setattr(server, "throttle_classes", (throttle,))

    return throttled


def test_a_scope_without_a_rate_limits_nothing(client: Client, throttled: Any):
    throttled(ScopedRateThrottle)
    for number in range(3):
        frames(post(client, "/agent/", f"r{number}"))


def test_runs_are_limited_and_reads_and_attaches_are_not_runs(client: Client, throttled: Any):
    throttled(ScopedRateThrottle, ag_ui_run="2/hour")
    frames(post(client, "/agent/", "r1"))
    for _ in range(3):
        frames(post(client, "/agent/", "r1"))
    frames(post(client, "/agent/resume/r1/", "r2", [{"id": "u2", "role": "user", "content": "more"}]))
    response = post(client, "/agent/", "r3")
    assert error(response) == (429, "throttled")
    assert 0 < int(response["Retry-After"]) <= 3600
    assert client.get("/agent/runs/").status_code == 200
    frames(post(client, "/agent/", "r1"))


def test_reads_are_limited_attaches_included(client: Client, throttled: Any):
    throttled(ScopedRateThrottle, ag_ui_read="2/hour")
    frames(post(client, "/agent/", "r1"))
    frames(post(client, "/agent/", "r1"))
    assert client.get("/agent/tools/").status_code == 200
    assert error(client.get("/agent/runs/")) == (429, "throttled")
    assert error(post(client, "/agent/", "r1")) == (429, "throttled")
    frames(post(client, "/agent/", "r2"))


def test_coming_back_to_a_run_is_a_read_however_it_is_done(client: Client, throttled: Any):
    throttled(ScopedRateThrottle, ag_ui_run="1/hour", ag_ui_read="5/hour")
    key = {"Idempotency-Key": "k"}
    frames(post(client, "/agent/", "r1", headers=key))
    frames(client.get("/agent/runs/r1/events/"))
    frames(client.get("/agent/runs/r1/events/?from=snapshot"))
    frames(post(client, "/agent/", "r2", headers=key))
    frames(post(client, "/agent/", "r1", headers={"Last-Event-ID": "r1:1"}))
    assert client.post("/agent/runs/r1/cancel/").status_code == 200
    for response in (
        client.get("/agent/runs/r1/events/"),
        client.post("/agent/runs/r1/cancel/"),
        post(client, "/agent/", "r3", headers=key),
        post(client, "/agent/", "r2"),
    ):
        assert error(response) == (429, "throttled")
        assert 0 < int(response["Retry-After"]) <= 3600


def test_a_malformed_post_counts_and_is_then_named(client: Client, throttled: Any, settings: Settings):
    throttled(ScopedRateThrottle, ag_ui_run="2/hour")
    settings.DJANGO_AG_UI = {"MAX_BODY_BYTES": 100}
    assert error(post(client, "/agent/", "r1", "x" * 200)) == (413, "body_too_large")
    assert error(post(client, "/agent/", "")) == (400, "invalid_input")
    assert error(post(client, "/agent/", "r1")) == (429, "throttled")


def test_an_ordinary_throttle_of_the_project_counts_every_request(client: Client, throttled: Any):
    throttled(UserRateThrottle, user="1/hour")
    assert client.get("/agent/runs/").status_code == 200
    assert error(client.get("/agent/runs/")) == (429, "throttled")
