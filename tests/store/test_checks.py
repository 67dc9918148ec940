from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from django_pydantic_agent.contrib.store.checks import check_database


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
