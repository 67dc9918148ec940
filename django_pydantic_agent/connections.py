"""Letting go of database connections in threads that Django does not look after."""

from django.db import connections


def release_connections() -> None:
    """Close this thread's connections, except those inside an atomic block."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
