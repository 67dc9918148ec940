from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_pydantic_agent.runs.engine import stop_engine
from tests.api.stores import STORES
from tests.effects import agent


@pytest.fixture(autouse=True)
def project(settings: Any, transactional_db: None) -> Iterator[None]:
    """Mount the servers of these tests and execute runs in the background."""
    settings.ROOT_URLCONF = "tests.effects.urls"
    yield
    agent.reset()
    stop_engine()
    STORES.clear()


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def stranger() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("bob"))
    return client
