"""Recursive queries on each database."""

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.contrib.store.rows import Row


def fetch_recursive(connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]) -> list[Row]:
    """Return the rows of a recursive query, however deep it goes: MariaDB stops silently after 1,000 steps."""
    if connection.vendor == "mysql":
        sql = f"SET STATEMENT max_recursive_iterations = 4294967295 FOR {sql}"
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
