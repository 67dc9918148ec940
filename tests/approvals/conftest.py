from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from django_pydantic_agent.runs.engine import stop_engine
from tests.api.conftest import IMMEDIATE, logged_in
from tests.approvals.agent import DONE, GATES, model
from tests.approvals.client import Asker


@pytest.fixture(autouse=True)
def project(settings: Settings) -> Iterator[None]:
    settings.ROOT_URLCONF = "tests.approvals.urls"
    settings.DJANGO_PYDANTIC_AGENT = {"EXECUTORS": {"default": {"BACKEND": IMMEDIATE}}}
    model.requests.clear()
    DONE.clear()
    yield
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    DONE.clear()


@pytest.fixture
def in_background(project: None, transactional_db: None, settings: Settings) -> Iterator[None]:
    """Execute runs as a server does."""
    settings.DJANGO_PYDANTIC_AGENT = {}
    yield
    stop_engine()


@pytest.fixture
def client(db: None) -> Client:
    return logged_in(User.objects.create_user("ada"))


@pytest.fixture
def stranger(db: None) -> Client:
    return logged_in(User.objects.create_user("bob"))


@pytest.fixture(params=["talk", "bare", "plain"])
def asker(request: pytest.FixtureRequest, client: Client) -> Asker:
    """A client of a mount with threads, one without, and one that has no step store either."""
    return Asker(client, f"/{request.param}/")


@pytest.fixture
def talk(client: Client) -> Asker:
    return Asker(client, "/talk/")
