"""Telling a database that is away from one that refuses what it was given, and trying again."""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.connections import is_outage
from django_pydantic_agent.exceptions import StoreUnavailable, UnstorableWrite

T = TypeVar("T")

CONNECTIONS_LOST = 3
"""After so many lost connections in a row, to a database that answers, the statements are to blame."""

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
