"""Count what goes to a database: statements that carry data, their bytes, and commits."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from pydantic_ai_harness.step_persistence import SqliteStepStore

READS = ("SELECT", "WITH")
WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass(slots=True)
class Meter:
    """The sums of one measurement; `bytes` are those of statements and their parameters."""

    statements: int = 0
    commits: int = 0
    bytes: int = 0

    def count(self, sql: str, size: int, *, in_transaction: bool) -> None:
        verb = sql.lstrip().partition(" ")[0].upper()
        if verb in READS or verb in WRITES:
            self.statements += 1
            self.bytes += size
            self.commits += verb in WRITES and not in_transaction


@contextmanager
def metered() -> Iterator[Meter]:
    """Count what all threads of this process send through Django while the block lasts."""
    meter = Meter()

    def attach(connection: BaseDatabaseWrapper, **_: Any) -> None:
        commit = connection.commit

        def execute(run: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
            size = len(sql.encode()) + sum(map(_size, parameters or ()))
            meter.count(sql, size, in_transaction=connection.in_atomic_block)
            return run(sql, parameters, many, context)

        def counted() -> None:
            meter.commits += 1
            commit()

        connection.execute_wrappers.append(execute)
        connection.commit = counted  # type: ignore[method-assign]

    def receive(sender: Any, connection: BaseDatabaseWrapper, **_: Any) -> None:
        attach(connection)

    connections.close_all()
    connection_created.connect(receive)
    try:
        yield meter
    finally:
        connection_created.disconnect(receive)


def _size(parameter: Any) -> int:
    if isinstance(parameter, str):
        return len(parameter.encode())
    return len(parameter) if isinstance(parameter, bytes | memoryview) else 8


class MeteredSqliteStepStore(SqliteStepStore):
    """The harness's own store on SQLite; it opens a connection for each call."""

    def __init__(self, database: str, meter: Meter) -> None:
        super().__init__(database=database)
        self._meter = meter
        self._in_transaction = False

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.set_trace_callback(self._count)
        return connection

    def _count(self, sql: str) -> None:
        if sql.startswith("BEGIN"):
            self._in_transaction = True
        elif sql.startswith("COMMIT"):
            self._in_transaction = False
            self._meter.commits += 1
        else:
            self._meter.count(sql, len(sql.encode()), in_transaction=self._in_transaction)
