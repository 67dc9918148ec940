"""Rows of many runs in one statement each.

`bulk_create` costs the recorder's thread several times as much for the few rows of a commit, and that thread shares the
interpreter with the agents.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from pydantic_core import to_json

from django_pydantic_agent.contrib.store.packets import max_packet
from django_pydantic_agent.log.frames import safe_text, storable_value

# MariaDB takes 16 MiB in one statement, if it is not told otherwise, and may need two bytes for each one of ours.
MAX_BYTES = 4 * 1024 * 1024
MAX_PARAMETERS = 30_000

ROW_BYTES = 256
"""About what a row takes beside its texts of any length."""

Row = tuple[Any, ...]


def insert(
    connection: BaseDatabaseWrapper,
    model: type[models.Model],
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    update: Sequence[str] = (),
    unique: Sequence[str] = (),
    computed: Mapping[str, str] | None = None,
) -> None:
    """Insert `rows` of values as the database takes them; with `update`, rows that are there get these columns.

    `computed` holds columns whose value is that of an SQL expression with one parameter, which the rows give.
    """
    if not rows:
        return
    start, values, end = _statement(
        connection.alias, model, tuple(columns), tuple(update), tuple(unique), tuple((computed or {}).items())
    )
    with connection.cursor() as cursor:
        for batch in _batches(rows, _row_limit(connection, len(columns)), _byte_limit(connection)):
            parameters = [value for row in batch for value in row]
            cursor.execute(start + ", ".join([values] * len(batch)) + end, parameters)


def as_json(value: Any) -> str:
    """Return the text of a JSON column: storable, NaN and infinities as null."""
    return to_json(storable_value(value), inf_nan_mode="null", fallback=safe_text).decode()


def row_size(row: Row) -> int:
    """Return about how many bytes a row takes."""
    size = ROW_BYTES
    for value in row:
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode(errors="replace"))
        elif isinstance(value, bytes):
            size += len(value)
    return size


def pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield `data` in numbered pieces that fit into one row; empty data is one piece."""
    for number, start in enumerate(range(0, len(data) or 1, MAX_BYTES)):
        yield number, data[start : start + MAX_BYTES]


@cache
def _statement(
    alias: str,
    model: type[models.Model],
    columns: tuple[str, ...],
    update: tuple[str, ...],
    unique: tuple[str, ...],
    computed: tuple[tuple[str, str], ...],
) -> tuple[str, str, str]:
    """Return what an INSERT begins with, the placeholders of one row, and what it ends with."""
    connection = connections[alias]
    quote = connection.ops.quote_name
    binary = "_binary %s" if connection.vendor == "mysql" else "%s"
    placeholders = {
        str(field.column): binary if isinstance(field, models.BinaryField) else "%s"
        for field in model._meta.local_fields
    } | dict(computed)
    names = ", ".join(map(quote, columns))
    return (
        f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES ",  # noqa: S608
        "(" + ", ".join(map(placeholders.__getitem__, columns)) + ")",
        _on_conflict(connection, update, unique) if update else "",
    )


def _row_limit(connection: BaseDatabaseWrapper, width: int) -> int:
    return max(1, (connection.features.max_query_params or MAX_PARAMETERS) // width)


def _byte_limit(connection: BaseDatabaseWrapper) -> int:
    packet = max_packet(connection)
    return MAX_BYTES if packet is None else min(MAX_BYTES, packet // 4)


def _on_conflict(connection: BaseDatabaseWrapper, update: Sequence[str], unique: Sequence[str]) -> str:
    quote = connection.ops.quote_name
    if connection.features.supports_update_conflicts_with_target:
        changes = ", ".join(f"{quote(column)} = EXCLUDED.{quote(column)}" for column in update)
        return f" ON CONFLICT ({', '.join(map(quote, unique))}) DO UPDATE SET {changes}"
    changes = ", ".join(f"{quote(column)} = VALUES({quote(column)})" for column in update)
    return f" ON DUPLICATE KEY UPDATE {changes}"


def _batches(rows: Iterable[Row], limit: int, max_bytes: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        taken = row_size(row)
        if batch and (len(batch) == limit or size + taken > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += taken
    yield batch
