"""One Chromium, and servers on a database that the tests of this folder share."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from tests.browser.driver import Browser
from tests.live.gates import Gatekeeper
from tests.live.visitors import Visitor
from tests.servers import LiveDatabase, Server, connected, create_live_database, serve

Start = Callable[..., contextlib.AbstractContextManager[Server]]


@pytest.fixture(scope="package")
def gates() -> Iterator[Gatekeeper]:
    with contextlib.closing(Gatekeeper()) as gatekeeper:
        yield gatekeeper


@pytest.fixture(scope="package")
def database(django_db_blocker: DjangoDbBlocker) -> Iterator[LiveDatabase]:
    with contextlib.ExitStack() as stack:
        with django_db_blocker.unblock():
            database = stack.enter_context(create_live_database())
        yield database
        with django_db_blocker.unblock():
            stack.close()


@pytest.fixture(scope="package")
def start(database: LiveDatabase, gates: Gatekeeper) -> Start:
    def start(**options: Any) -> contextlib.AbstractContextManager[Server]:
        return serve(
            "uvicorn",
            application="tests.browser.asgi:application",
            env=database.env | gates.env,
            **{"settings_module": "tests.browser.settings"} | options,
        )

    return start


@pytest.fixture(scope="package")
def server(start: Start) -> Iterator[Server]:
    with start() as server:
        yield server


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with contextlib.closing(Browser()) as browser:
        yield browser


@pytest.fixture(autouse=True)
def on_live_database(database: LiveDatabase, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock(), connected(database.name):
        yield


@pytest.fixture
def visitor(on_live_database: None) -> Visitor:
    return Visitor.new()
