"""The admin over large tables: 100,000 events, 20,000 tool effects, and payloads of 50 KB among them."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pydantic_agent.contrib.store.models import Run, RunFrames, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.rows import insert
from django_pydantic_agent.contrib.store.run_log import FRAME_COLUMNS, stretch_rows
from tests.store.admin_rows import client_of, frames_of, make_rows, page_of
from tests.store.test_admin import columns_of, payload_columns

pytestmark = pytest.mark.django_db

EVENTS, EFFECTS, PAYLOAD = 100_000, 20_000, "x" * 50_000
STRETCH = 1_000


def fill(run: Run) -> None:
    """Give a run its events, in the log and in the ledger, and its effects."""
    small, large = frames_of("text")[5], frames_of(PAYLOAD)[5]
    run.frames.all().delete()
    for first in range(1, EVENTS, STRETCH):
        frames = [large, *[small] * (STRETCH - 1)]
        insert(connection, RunFrames, FRAME_COLUMNS, stretch_rows(run.pk, first, frames, compress=True))
    Run.objects.filter(pk=run.pk).update(last_seq=EVENTS, metadata={"large": PAYLOAD}, error={"message": PAYLOAD})
    text, large_text = "CAST(i AS TEXT)", "CASE WHEN i % 200 = 0 THEN %s ELSE '' END"
    event = {"kind": "'tool_called'", "step_index": "i", "timestamp": "i", "metadata": "'{}'", "tool_name": "'tool'"}
    generate(StepEvent, EVENTS, run, {**event, "error": large_text})
    effect = dict.fromkeys(("call_digest", "tool_call_id", "tool_name"), text) | {"started_at": "i"}
    effect["status"] = "CASE i % 4 WHEN 0 THEN 'started' WHEN 1 THEN 'failed' ELSE 'completed' END"
    effect |= dict.fromkeys(("reason", "arguments", "result", "verdict", "verdict_by", "verdict_note"), "''")
    generate(ToolEffect, EFFECTS, run, {**effect, "effect_summary": large_text})


def generate(model: Any, number: int, run: Run, columns: dict[str, str]) -> None:
    """Write rows whose columns are these SQL expressions over the number of the row, the last one with the payload."""
    names = ", ".join(map(connection.ops.quote_name, ["run_id", *columns]))
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number}) "  # noqa: S608
            f"INSERT INTO {model._meta.db_table} ({names}) "
            f"SELECT {run.pk}, {', '.join(columns.values()).replace('% ', '%% ')} FROM n",
            [PAYLOAD],
        )


def queries_of(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
    assert response.status_code == 200, url
    assert len(response.content) < 300_000, url
    return [query["sql"] for query in captured]


@pytest.mark.sqlite
@pytest.mark.postgres
def test_no_page_reads_more_where_tables_are_large():
    staff = client_of("staff")
    (run,) = make_rows(1)
    effect = ToolEffect.objects.filter(run=run).first()
    lists = {
        page_of(model, "changelist") + query: model
        for model, query in [
            (Run, ""),
            (Run, "?unresolved=1&waiting=1&server=text&started=30"),
            (Run, "?q=text"),
            (StepEvent, ""),
            (StepEvent, f"?run__id__exact={run.pk}"),
            (ToolEffect, "?unresolved=1"),
        ]
    }
    pages = [page_of(Run, "change", run.pk), page_of(Run, "events", run.pk), page_of(ToolEffect, "settle", effect.pk)]
    pages = [*lists, *pages, f"{page_of(Run, 'change', run.pk)}?after=5"]
    few = {url: len(queries_of(staff, url)) for url in pages}
    fill(run)
    for url in pages:
        queries = queries_of(staff, url)
        assert len(queries) <= few[url], url
        for sql in queries:
            counts = re.match(r"SELECT COUNT\(", sql)
            assert not counts or "LIMIT 10000" in sql, sql
            if url in lists:
                assert not columns_of(sql) & payload_columns(lists[url]), sql
    assert len(staff.get(page_of(Run, "change", run.pk)).context["unknown"]) == 20
    log = staff.get(page_of(Run, "log", run.pk))
    assert sum(piece.count(b"\n") for piece in log.streaming_content) == EVENTS
