"""Which delegates ran inside which runs, however deep."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections

from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.recursive import fetch_recursive
from django_pydantic_agent.contrib.store.rows import Row


def keys_inside(runs: Iterable[int], *, using: str) -> dict[int, set[int]]:
    """Return for each of these runs, by its key, its key and those of the delegates that ran inside it."""
    keys = {run: {run} for run in runs}
    sql = """
        WITH RECURSIVE inside(run, id, run_digest) AS (
            SELECT id, id, run_digest FROM {table} WHERE id IN ({values})
            UNION
            SELECT inside.run, r.id, r.run_digest
            FROM inside JOIN {table} r ON r.parent_digest = inside.run_digest
            WHERE r.is_ledger_only
        )
        SELECT run, id FROM inside
    """
    for run, key in _rows(sql, list(keys), using=using):
        keys[run].add(key)
    return keys


def digests_above(digests: Iterable[str], *, using: str) -> set[str]:
    """Return these digests of runs, and those of the runs inside which they ran."""
    sql = """
        WITH RECURSIVE above(run_digest) AS (
            SELECT run_digest FROM {table} WHERE run_digest IN ({values})
            UNION
            SELECT r.parent_digest
            FROM above JOIN {table} r ON r.run_digest = above.run_digest
            WHERE r.is_ledger_only AND r.parent_digest IS NOT NULL
        )
        SELECT run_digest FROM above
    """
    given = set(digests)
    return given | {digest for (digest,) in _rows(sql, list(given), using=using)}


def _rows(sql: str, values: Sequence[Any], *, using: str) -> list[Row]:
    """Return the rows of a recursive query that begins with these values."""
    if not values:
        return []
    connection = connections[using]
    table = connection.ops.quote_name(Run._meta.db_table)
    return fetch_recursive(connection, sql.format(table=table, values=", ".join(["%s"] * len(values))), values)
