"""Which tests a run takes: those of its database, and what the machine can run.

What is missing skips a test and says why. With REQUIRE_ALL=1, as in CI, every skip is a failure instead, and the tests
of another database are left to the run on that database.
"""

import os
import shutil
import sys
from collections.abc import Generator

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.base.creation import TEST_DATABASE_PREFIX
from pytest_django import DjangoDbBlocker

pytest_plugins = ["tests.servers"]

GRACE_SECONDS = 2.0
REQUIRE_ALL = os.environ.get("REQUIRE_ALL", "0") != "0"
DATABASES = {"sqlite": "sqlite3", "postgres": "postgresql", "mariadb": "mysql"}
PROGRAMS = {"node": ("node", "npm"), "browser": ("node", "npm", "chromium")}


@pytest.fixture
def anyio_backend() -> str:
    """Run `anyio` tests on asyncio, the loop that Django's handlers use."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _engine_ends_before_its_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Generator[None]:
    """Stop this process's engine while the database that its threads ask is still there."""
    yield
    if (engine := sys.modules.get("django_pydantic_agent.runs.engine")) is not None:
        engine.stop_engine()
    with django_db_blocker.unblock():
        _end_other_sessions()


def _end_other_sessions() -> None:
    """End what killed processes have left of their sessions, with which PostgreSQL does not drop a database.

    Tests on databases of their own leave the connection at one that nobody has made.
    """
    if connection.vendor == "postgresql" and connection.settings_dict["NAME"].startswith(TEST_DATABASE_PREFIX):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        connection.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Have the runs of a test end before its tables are emptied, which locks what they still write to."""
    if (engine := sys.modules.get("django_pydantic_agent.runs.engine")) is not None:
        engine.drain_engine(GRACE_SECONDS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    engine = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
    deselected = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        databases = sorted(marks & DATABASES.keys())
        if databases and engine not in {DATABASES[name] for name in databases}:
            item.add_marker(pytest.mark.skip(reason=f"needs TEST_DATABASE={' or '.join(databases)}"))
            deselected.append(item)
        for mark in sorted(marks & PROGRAMS.keys()):
            missing = [program for program in PROGRAMS[mark] if shutil.which(program) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(missing)}"))
    if REQUIRE_ALL and deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason}, and REQUIRE_ALL is set"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
