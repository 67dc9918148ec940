"""What is connected to the database of these tests."""

import contextlib

from django.db import OperationalError, connection

ENGINE_CONNECTIONS = 3
"""What a process may hold, however many streams are open: the recorder's, the watcher's and the lease's."""

COUNT = {
    "postgresql": """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
    """,
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}
TERMINATE = {
    "postgresql": """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()
    """,
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}


def held_connections() -> int:
    """Return how many connections to the database others hold; 0 on SQLite, which has no list of them."""
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(COUNT[connection.vendor])
        number: int = cursor.fetchone()[0]
    return number


def terminate_connections() -> int:
    """Cut every connection to the database but the test's own, as a restart of the server does; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(TERMINATE[connection.vendor])
        rows = cursor.fetchall()
        if connection.vendor == "mysql":
            for (number,) in rows:
                # Some are gone by now.
                with contextlib.suppress(OperationalError):
                    cursor.execute(f"KILL {number}")
    return len(rows)
