"""What a run of many tool steps sends to the database and leaves there, beside the harness's own store."""

import asyncio
import tempfile
from collections.abc import AsyncIterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from pydantic_ai import UsageLimits
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai_harness.step_persistence import StepPersistence

from benchmarks.agents import Task, agent
from benchmarks.figures import viewer
from benchmarks.figures.in_process import execute
from benchmarks.meter import Meter, MeteredSqliteStepStore, metered
from benchmarks.report import Bound, Measured
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore

STEPS = (50, 100, 200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run cost: bytes of its final history, bytes left in the database, and what was sent there."""

    steps: int
    history: int
    at_rest: int
    sent: Meter


def measure(rounds: int) -> Iterator[Measured]:
    ours, theirs = [ours_of(steps) for steps in STEPS], [harness_of(steps) for steps in STEPS]
    for costs, whose, is_ours in ((ours, "", True), (theirs, ", harness on SQLite", False)):
        yield from _lines(costs, whose, is_ours)


def _lines(costs: Sequence[Cost], whose: str, is_ours: bool) -> Iterator[Measured]:
    def bound(limit: float, *, on_disk: bool = False) -> Bound | None:
        # InnoDB takes its space in extents of 1 MiB, which says little about runs of this size.
        return Bound(at_most=limit) if is_ours and not (on_disk and connection.vendor == "mysql") else None

    for cost in costs:
        of = f"of {cost.steps} steps{whose}"
        yield Measured(f"commits per step {of}", cost.sent.commits / cost.steps, "", bound(3))
        yield Measured(f"data statements per step {of}", cost.sent.statements / cost.steps, "", bound(12))
        at_rest, sent = cost.at_rest / cost.history, cost.sent.bytes / cost.history
        is_last = cost is costs[-1]
        yield Measured(f"bytes at rest by final history {of}", at_rest, "", bound(3, on_disk=True) if is_last else None)
        yield Measured(f"bytes sent by final history {of}", sent, "", bound(6) if is_last else None)
    at_rest = max(more.at_rest / less.at_rest for less, more in pairwise(costs))
    sent = max(more.sent.bytes / less.sent.bytes for less, more in pairwise(costs))
    yield Measured(f"bytes at rest when steps double, at most{whose}", at_rest, "", bound(2.2, on_disk=True))
    yield Measured(f"bytes sent when steps double, at most{whose}", sent, "", bound(2.2))


def ours_of(steps: int) -> Cost:
    before = database_bytes()
    with metered() as meter:
        (request,) = execute(viewer(), Task(steps=steps))
    at_rest = database_bytes() - before
    snapshot = asyncio.run(DefaultStepStore(request).latest_snapshot(run_id=request.run_id))
    return Cost(steps=steps, history=_bytes(snapshot), at_rest=at_rest, sent=meter)


def harness_of(steps: int) -> Cost:
    async def run(store: Any) -> Any:
        capability = StepPersistence(store=store, run_id="run", capture_frontier=True)
        await agent.run(
            Task(steps=steps).prompt(),
            capabilities=[capability],
            usage_limits=UsageLimits(request_limit=None),
            event_stream_handler=_drain,
        )
        return await store.latest_snapshot(run_id="run")

    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        path = Path(directory) / "harness.sqlite3"
        meter = Meter()
        store = MeteredSqliteStepStore(str(path), meter)
        snapshot = asyncio.run(run(store))
        with store._open() as opened:
            opened.execute("VACUUM")
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Cost(steps=steps, history=_bytes(snapshot), at_rest=path.stat().st_size, sent=meter)


async def _drain(_: Any, events: AsyncIterable[Any]) -> None:
    async for _event in events:
        pass


def _bytes(snapshot: Any) -> int:
    return len(ModelMessagesTypeAdapter.dump_json(snapshot.messages))


def database_bytes() -> int:
    """Return what the store's tables and indexes take on the disk after they were compacted."""
    tables = [model._meta.db_table for model in apps.get_app_config("django_pydantic_agent_store").get_models()]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("VACUUM")
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        elif connection.vendor == "postgresql":
            for table in tables:
                cursor.execute(f'VACUUM FULL "{table}"')
            cursor.execute(
                "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name", [tables]
            )
        else:
            cursor.execute(f"OPTIMIZE TABLE {', '.join(tables)}")
            cursor.fetchall()
            cursor.execute(
                "SELECT sum(data_length + index_length) FROM information_schema.tables"
                " WHERE table_schema = DATABASE() AND table_name IN %s",
                [tuple(tables)],
            )
        return int(cursor.fetchone()[0])
