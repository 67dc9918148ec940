import threading
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from django_ag_ui.api.sse import _checkers
from tests.api import urls
from tests.api.agents import GATES, model
from tests.api.stores import STORES

IMMEDIATE = "django_pydantic_agent.runs.executors.immediate.ImmediateExecutor"


@pytest.fixture(autouse=True)
def project(request: pytest.FixtureRequest, settings: Settings) -> Iterator[None]:
    """Mount the servers of these tests; a test that is rolled back has its runs executed at once."""
    settings.ROOT_URLCONF = "tests.api.urls"
    if "live" not in request.fixturenames:
        settings.DJANGO_PYDANTIC_AGENT = {"EXECUTORS": {"default": {"BACKEND": IMMEDIATE}}}
    urls.get_user.does = lambda request: request.user
    urls.authorize.does = lambda request: True
    urls.context.does = lambda request: None
    cache.clear()
    model.requests.clear()
    yield
    GATES.clear()
    STORES.clear()


@pytest.fixture
def live(transactional_db: None) -> Iterator[None]:
    """Execute runs in the background, on a database where they can see what a test has written."""
    from django_pydantic_agent.runs.engine import stop_engine

    yield
    for gate in GATES.values():
        gate.open()
    stop_engine()
    # Both threads that check access are idle once they have met.
    meeting = threading.Barrier(2)
    wait([_checkers().submit(meeting.wait) for _ in range(2)])


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def other(db: None) -> User:
    return User.objects.create_user("bob")


def logged_in(user: Any, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


@pytest.fixture
def client(user: User) -> Client:
    return logged_in(user)


@pytest.fixture
def stranger(other: User) -> Client:
    return logged_in(other)
