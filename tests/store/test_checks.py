from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.db import connection
from pytest_django import Settings

from django_pydantic_agent.contrib.store.checks import check_character_set, check_database
from django_pydantic_agent.contrib.store.models import ThreadMessage


class Scattered:
    """A router that keeps frames in a database of their own."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "logs" if model.__name__ == "RunFrames" else None


def found() -> list[tuple[str | None, str]]:
    return [(message.id, message.msg) for message in check_database(None)]


def test_E001_models_in_several_databases(settings: Settings):
    settings.DATABASE_ROUTERS = ["tests.store.test_checks.Scattered"]
    text = "The models of django_pydantic_agent.contrib.store are written to default and logs."
    assert found() == [("django_pydantic_agent_store.E001", text)]


@pytest.mark.sqlite
def test_W001_SQLite_without_immediate_transactions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"timeout": 20})
    text = "Transactions on the SQLite database 'default' are DEFERRED, so parallel runs find it locked."
    assert found() == [("django_pydantic_agent_store.W001", text)]
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"transaction_mode": "IMMEDIATE"})
    assert found() == []


ID = "django_pydantic_agent_store.W002"


def narrow() -> list[str]:
    return [message.msg for message in run_checks(databases=["default"]) if message.id == ID]


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_W002_a_table_that_has_no_room_for_every_character():
    assert narrow() == []
    table = ThreadMessage._meta.db_table
    text = f"The MySQL database 'default' has no room for every character: the table {table} has latin1."
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} MODIFY role varchar(16) CHARACTER SET latin1 NOT NULL")
        try:
            assert narrow() == [text]
        finally:
            cursor.execute(f"ALTER TABLE {table} MODIFY role varchar(16) CHARACTER SET utf8mb4 NOT NULL")


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_W002_a_connection_and_a_database_that_have_no_room_for_every_character(monkeypatch: pytest.MonkeyPatch):
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    for model in apps.get_app_config("django_pydantic_agent_store").get_models():
        monkeypatch.setattr(model._meta, "db_table", f"no_{model._meta.db_table}")
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} CHARACTER SET latin1")
        cursor.execute("SET NAMES latin1")
        try:
            (text,) = narrow()
        finally:
            cursor.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4")
            cursor.execute("SET NAMES utf8mb4")
    assert text.endswith(": the connection has latin1, the database has latin1.")


@pytest.mark.django_db
def test_W002_a_database_is_asked_only_where_it_is_named(django_assert_num_queries: Any):
    with django_assert_num_queries(0):
        assert check_character_set(None) == []
