"""What is connected to the database of these tests."""

from django.db import connection

from tests.servers import Server

COUNT = {
    "postgresql": """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
    """,
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}
PIDS = {
    "postgresql": """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid()
    """,
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}


def held_connections(server: Server) -> int:
    """Return how many connections to the database are open.

    On SQLite return 1 where `server` has any: it keeps the files of closed ones while one is open.
    """
    if connection.vendor == "sqlite":
        name = connection.settings_dict["NAME"]
        return int(any(file.path == name for process in server.members() for file in process.open_files()))
    with connection.cursor() as cursor:
        cursor.execute(COUNT[connection.vendor])
        number: int = cursor.fetchone()[0]
    return number


def terminate_connections() -> int:
    """Cut every connection to the database but the test's own, as a restart of the server does; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(PIDS[connection.vendor])
        rows = cursor.fetchall()
        if connection.vendor == "mysql":
            for (number,) in rows:
                cursor.execute(f"KILL {number}")
    return len(rows)
