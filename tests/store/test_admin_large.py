"""The admin over large tables: 100,000 events, 20,000 tool effects and payloads of 50 KB."""

from collections.abc import Iterator
from itertools import batched

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_pydantic_agent.contrib.store.admin.payloads import SHOWN_CHARACTERS
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Run, RunFrames, Snapshot, StepEvent, Thread, ToolEffect
from django_pydantic_agent.contrib.store.rows import insert
from django_pydantic_agent.contrib.store.run_log import FRAME_COLUMNS, stretch_rows
from tests.store.admin_rows import client_of, frames_of, make_rows, page_of
from tests.store.test_admin import columns_of, payload_columns

pytestmark = pytest.mark.django_db

EVENTS, EFFECTS, PAYLOAD = 100_000, 20_000, "x" * 50_000
STRETCH = 1_000


def fill(run: Run) -> None:
    """Give a run its events, in the log and in the ledger, and its effects, every hundredth of them large."""
    delta = frames_of("text")[5]
    large = frames_of(PAYLOAD)[5]
    run.frames.all().delete()
    for first in range(1, EVENTS + 1, STRETCH):
        frames = [large, *[delta] * (STRETCH - 1)]
        insert(connection, RunFrames, FRAME_COLUMNS, stretch_rows(run.pk, first, frames, compress=True))
    Run.objects.filter(pk=run.pk).update(last_seq=EVENTS, metadata={"large": PAYLOAD}, error={"code": PAYLOAD})
    events = ("run_id", "kind", "step_index", "timestamp", "metadata", "error", "tool_name")
    insert(
        connection,
        StepEvent,
        (*events, "is_large")[:-1],
        [
            (run.pk, "tool_called", number, number, "{}", PAYLOAD if number % 100 == 0 else "", "tool")
            for number in range(EVENTS)
        ],
    )
