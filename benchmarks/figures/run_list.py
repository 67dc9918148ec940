"""`GET runs/` among many runs, against a plain DRF list of as many rows of the same table."""

import time
from collections.abc import Iterator
from statistics import median

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.agents import Task
from benchmarks.figures import viewer
from benchmarks.figures.in_process import execute, planned
from benchmarks.report import Bound, Measured
from benchmarks.sides import alternate
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.states import RunStatus

ROWS = 50
OTHERS = 10_000
REQUESTS = 20


def measure(rounds: int) -> Iterator[Measured]:
    user = viewer()
    accept(user, OTHERS)
    execute(user, *[Task(steps=2)] * ROWS)
    client = Client()
    client.force_login(user)
    pairs = alternate(rounds, lambda: duration(client, "/agent/runs/"), lambda: duration(client, "/plain-list/"))
    with CaptureQueriesContext(connection) as captured:
        assert len(client.get("/agent/runs/").json()["runs"]) == ROWS
    identity = ("django_session", "auth_user")
    queries = sum(not any(table in query["sql"] for table in identity) for query in captured)
    what = f"GET runs/, {ROWS} of {OTHERS} runs"
    yield Measured(f"{what}, queries without those of the identity", queries, "", Bound(at_most=3))
    yield Measured(what, median(ours for ours, _ in pairs) * 1000, "ms")
    yield Measured(f"plain DRF list, {ROWS} rows", median(theirs for _, theirs in pairs) * 1000, "ms")
    yield Measured(f"{what}, against a plain DRF list", median(a / b for a, b in pairs), "", Bound(at_most=2))


def accept(user: User, count: int) -> None:
    """Write runs that end before they begin."""
    with transaction.atomic():
        for _ in range(count):
            plan = planned(user, Task())
            plan.store.create(new_run(plan), on_commit=lambda *_: None)
        Run.objects.update(status=RunStatus.CANCELLED)


def duration(client: Client, path: str) -> float:
    """Return the seconds that a GET takes, the mean of a few."""
    began = time.perf_counter()
    for _ in range(REQUESTS):
        answer = client.get(path)
        assert answer.status_code == 200, answer.content
    return (time.perf_counter() - began) / REQUESTS
