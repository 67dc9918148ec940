"""Servers that the tests of this folder share, on a database of their own that none of them empties."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from tests.live.gates import Gatekeeper
from tests.live.visitors import Visitor
from tests.servers import KINDS, LiveDatabase, Server, connected, create_live_database, each, serve

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
    """Return what starts a server; `engine` and `ag_ui` are settings of the two packages."""

    def start(
        kind: str,
        *,
        settings_module: str = "tests.live.settings",
        engine: Mapping[str, Any] | None = None,
        ag_ui: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> contextlib.AbstractContextManager[Server]:
        given = {"LIVE_ENGINE": json.dumps(engine or {}), "LIVE_AG_UI": json.dumps(ag_ui or {}), **(env or {})}
        return serve(kind, settings_module=settings_module, env=database.env | gates.env | given, **options)

    return start


@pytest.fixture(scope="package")
def uvicorn(start: Start) -> Iterator[Server]:
    with start("uvicorn") as server:
        yield server


@pytest.fixture(scope="package")
def daphne(start: Start) -> Iterator[Server]:
    with start("daphne") as server:
        yield server


STREAMING = [kind for kind in KINDS if kind != "gunicorn-sync"]


@pytest.fixture(scope="package", params=each(STREAMING))
def server(request: pytest.FixtureRequest, start: Start) -> Iterator[Server]:
    """A server of each kind that can stream to several viewers."""
    if request.param in ("uvicorn", "daphne"):
        yield request.getfixturevalue(request.param)
    else:
        with start(request.param) as server:
            yield server


@pytest.fixture(autouse=True)
def on_live_database(database: LiveDatabase, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Have the test's own ORM use the database of the servers."""
    with django_db_blocker.unblock(), connected(database.name):
        yield


@pytest.fixture
def visitor(on_live_database: None) -> Visitor:
    return Visitor.new()
