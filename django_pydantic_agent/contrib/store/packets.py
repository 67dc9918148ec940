"""Statements that are longer than MariaDB and MySQL take, refused before the server closes the connection over them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.exceptions import WriteTooLarge

# What is written as two bytes inside of quotes.
_ESCAPED = b"\0\n\r\x1a\\'\""

PARAMETER_BYTES = 32
"""What a number takes, and the quotes and the character set around a text."""


@contextmanager
def within_packets(using: str) -> Iterator[None]:
    """Raise `WriteTooLarge` for any statement that is longer than the database takes, instead of sending it."""
    connection = connections[using]
    limit = max_packet(connection)
    if limit is None:
        yield
        return

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if not many and not _fits(sql, params or (), limit):
            raise WriteTooLarge(f"a statement is longer than the {limit} bytes that the database takes")
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


def max_packet(connection: BaseDatabaseWrapper) -> int | None:
    """Return the bytes of the longest statement, None where the database has no such limit."""
    return _max_allowed_packet(connection.alias) if connection.vendor == "mysql" else None


@cache
def _max_allowed_packet(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        return int(cursor.fetchone()[0])


def _fits(sql: str, params: Sequence[Any], limit: int) -> bool:
    values = [value for value in params if isinstance(value, bytes | str)]
    length = len(sql) + PARAMETER_BYTES * (len(params) + 1)
    # A character takes at most four bytes, escaped or not: hardly any statement needs to be counted.
    if length + 4 * sum(map(len, values)) < limit:
        return True
    return length + sum(map(_escaped_length, values)) < limit


def _escaped_length(value: bytes | str) -> int:
    data = value.encode(errors="replace") if isinstance(value, str) else value
    return 2 * len(data) - len(data.translate(None, _ESCAPED))
