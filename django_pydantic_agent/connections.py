"""Database connections in threads that Django does not look after: letting go of them, and waiting for a database."""

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connections

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import StoreUnavailable

T = TypeVar("T")

FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0

# What MariaDB refuses for what the statement holds, in the class of errors that otherwise means an outage: too large a
# packet, text that the column's character set has no room for, no JSON, a violated check.
MARIADB_REFUSALS = frozenset({1153, 1366, 1406, 3140, 4025})


def release_connections() -> None:
    """Close this thread's connections, except those inside an atomic block."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def is_outage(error: Exception) -> bool:
    """Return whether the database may accept the same statements later."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return not (error.args and error.args[0] in MARIADB_REFUSALS)


def patiently(operation: Callable[[], T]) -> T:
    """Return what `operation` returns, tried again while the database is locked or away.

    Raises `StoreUnavailable` after STORE_PATIENCE_SECONDS; inside a transaction of the caller's, at once.
    """
    deadline = time.monotonic() + agent_settings.STORE_PATIENCE_SECONDS
    retry = FIRST_RETRY
    while True:
        try:
            return operation()
        except (OperationalError, InterfaceError) as error:
            if not is_outage(error):
                raise
            is_within = any(connection.in_atomic_block for connection in connections.all(initialized_only=True))
            if is_within or time.monotonic() > deadline:
                raise StoreUnavailable(str(error)) from error
        release_connections()
        time.sleep(retry)
        retry = min(retry * 2, LONGEST_RETRY)
