"""What an open stream that waits takes of the server: memory, and connections to the database."""

import time
from collections.abc import Iterator

import psutil
from django.db import connection

from benchmarks.agents import Task
from benchmarks.figures import mount
from benchmarks.report import Bound, Measured
from benchmarks.sides import django
from tests.servers import Server

FEW, MANY = 100, 1000
TASK = Task(wait=600)
# The recorder keeps its connection for a while after the last commit.
SETTLE_SECONDS = 8


def measure(rounds: int) -> Iterator[Measured]:
    floor, _ = footprint("/one-frame/", of_one_run=False)
    yield Measured(f"memory per stream, {MANY} open, plain DRF view", floor, "KiB")
    viewers, connections = footprint("/agent/", of_one_run=True)
    yield Measured(f"memory per stream, {MANY} open of one run", viewers, "KiB")
    bound = Bound(at_most=1.5)
    yield Measured(f"memory per stream, {MANY} open of one run, against a plain DRF view", viewers / floor, "", bound)
    yield Measured(f"database connections of {MANY} open streams of one run", connections, "", Bound(at_most=0))
    runs, connections = footprint("/agent/", of_one_run=False)
    yield Measured(f"memory per stream and run, {MANY} open", runs, "KiB")
    yield Measured(f"memory per stream and run, {MANY} open, against a plain DRF view", runs / floor, "", bound)
    yield Measured(f"database connections of {MANY} open streams and runs", connections, "", Bound(at_most=0))


def footprint(path: str, *, of_one_run: bool) -> tuple[float, int]:
    """Return the KiB that each stream above the first few takes in a fresh server, and the open connections."""
    with django() as server:
        side = mount(server, path)
        with side.opened(TASK, FEW, of_one_run=of_one_run):
            few = memory(server)
        with side.opened(TASK, MANY, of_one_run=of_one_run):
            many = memory(server)
            connections = database_connections(server)
    return (many - few) / (MANY - FEW) / 1024, connections


def memory(server: Server) -> int:
    time.sleep(SETTLE_SECONDS)
    resident: int = psutil.Process(server.process.pid).memory_info().rss
    return resident


def database_connections(server: Server) -> int:
    """Return how many connections the server has to the database."""
    if connection.vendor == "sqlite":
        files = psutil.Process(server.process.pid).open_files()
        return sum(file.path == connection.settings_dict["NAME"] for file in files)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
        return int(cursor.fetchone()[0])
