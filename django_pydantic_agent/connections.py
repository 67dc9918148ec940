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


def release_connections() -> None:
    """Close this thread's connections, except those inside an atomic block."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def patiently(operation: Callable[[], T]) -> T:
    """Return what `operation` returns, tried again while the database is away.

    Raises `StoreUnavailable` after STORE_PATIENCE_SECONDS.
    """
    deadline = time.monotonic() + agent_settings.STORE_PATIENCE_SECONDS
    retry = FIRST_RETRY
    while True:
        try:
            return operation()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > deadline:
                raise StoreUnavailable(str(error)) from error
        release_connections()
        time.sleep(retry)
        retry = min(retry * 2, LONGEST_RETRY)
