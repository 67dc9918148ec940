"""Telling a database that is away from one that refuses what it was given, and waiting for it."""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import StoreUnavailable, UnstorableWrite

T = TypeVar("T")

FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0

CONNECTIONS_LOST = 3
"""After so many lost connections in a row, to a database that answers, the statements are to blame."""

# What MariaDB refuses for what the statement holds, in the class of errors that otherwise means an outage: too large a
# packet, text that the column's character set has no room for, no JSON, a violated check.
MARIADB_REFUSALS = frozenset({1153, 1366, 1406, 3140, 4025})

MARIADB_DEADLOCK = 1213
POSTGRESQL_DEADLOCK = "40P01"
DEADLOCK_TRIES = 20


def _is_deadlock(error: OperationalError) -> bool:
    """Return whether the database has rolled a transaction back so that another one could go on."""
    if getattr(error.__cause__, "sqlstate", None) == POSTGRESQL_DEADLOCK:
        return True
    return bool(error.args) and error.args[0] == MARIADB_DEADLOCK


def despite_deadlocks(operation: Callable[[], T], *, using: str) -> T:
    """Return what `operation` returns, tried again where the database has undone its transaction for another one.

    Raises the deadlock after `DEADLOCK_TRIES`; inside a transaction of the caller's, which is undone with it, at once.
    """
    for attempt in range(1, DEADLOCK_TRIES):
        try:
            return operation()
        except OperationalError as error:
            if connections[using].in_atomic_block or not _is_deadlock(error):
                raise
        time.sleep(random.uniform(0, attempt / 100))  # noqa: S311
    return operation()


def is_outage(error: Exception) -> bool:
    """Return whether the database may accept the same statements later."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return not (error.args and error.args[0] in MARIADB_REFUSALS)


def insistently(operation: Callable[[], T], *, using: str) -> T:
    """Return what `operation` returns, tried again where it loses its connection to a database that is there.

    Raises `StoreUnavailable` where the database is locked or away, and `UnstorableWrite` where the database has
    answered before and after each of the tries that lost their connection.
    """
    connection = connections[using]
    for _ in range(CONNECTIONS_LOST):
        used = None
        try:
            connection.ensure_connection()
            used = connection.connection
            return operation()
        except (OperationalError, InterfaceError) as error:
            if not is_outage(error):
                raise
            if used is None or not _answers_anew(connection, used):
                raise StoreUnavailable(str(error)) from error
            lost = error
    raise UnstorableWrite("the database closes the connection over what is written") from lost


def _answers_anew(connection: BaseDatabaseWrapper, used: Any) -> bool:
    """Return whether the connection that was used is lost but the database answers on a new one."""
    if connection.in_atomic_block:
        return False
    # The end of a transaction may have opened a new one already.
    if connection.connection is used:
        if connection.is_usable():
            return False
        connection.close()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (OperationalError, InterfaceError):
        return False
    return True


def patiently(operation: Callable[[], T], *, using: str) -> T:
    """Return what `operation` returns, tried again while the database is locked or away.

    Raises `StoreUnavailable` after STORE_PATIENCE_SECONDS; inside a transaction of the caller's, at once.
    """
    deadline = time.monotonic() + agent_settings.STORE_PATIENCE_SECONDS
    retry = FIRST_RETRY
    while True:
        try:
            return operation()
        except (OperationalError, InterfaceError) as error:
            connection = connections[using]
            if not is_outage(error):
                raise
            if connection.in_atomic_block or time.monotonic() > deadline:
                raise StoreUnavailable(str(error)) from error
            connection.close()
        time.sleep(retry)
        retry = min(retry * 2, LONGEST_RETRY)
