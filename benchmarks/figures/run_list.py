"""`GET runs/` among many runs, against a plain DRF list of as many rows of the same table."""

import time
import uuid
from collections.abc import Iterator
from statistics import median

from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.agents import Task
from benchmarks.figures import viewer
from benchmarks.figures.in_process import execute
from benchmarks.report import Bound, Measured
from benchmarks.sides import alternate
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores import run_store_for
from django_pydantic_agent.stores.base import NewRun

ROWS = 50
OTHERS = 10_000
REQUESTS = 20


def measure(rounds: int) -> Iterator[Measured]:
    user = viewer()
    accept(Owner.of_user(user), OTHERS)
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


def accept(owner: Owner, count: int) -> None:
    """Write runs that never begin."""
    store = run_store_for(owner)
    with transaction.atomic():
        for _ in range(count):
            run_id = uuid.uuid4().hex
            new = NewRun(
                owner=owner,
                scope="",
                run_id=run_id,
                thread_id=run_id,
                server="benchmarks",
                input=b"{}",
                digest=run_id,
                protocol="",
                message_ids=[run_id],
                first_frame=b"{}",
            )
            store.create(new, on_commit=lambda run: None)


def duration(client: Client, path: str) -> float:
    """Return the seconds that a GET takes, the mean of a few."""
    began = time.perf_counter()
    for _ in range(REQUESTS):
        answer = client.get(path)
        assert answer.status_code == 200, answer.content
    return (time.perf_counter() - began) / REQUESTS
