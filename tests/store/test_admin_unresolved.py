"""Calls whose outcome nobody knows, in the lists of the admin, their filters and the page of a run."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from tests.store.admin_rows import client_of, make_delegate, make_effect, make_rows, page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> Client:
    return client_of("staff")


def make_run(*, status: str = "failed") -> Run:
    """Write a run without tool effects."""
    (run,) = make_rows(1)
    run.tool_effects.all().delete()
    Run.objects.filter(pk=run.pk).update(status=status)
    return run


def rows_of(client: Client, model: Any, query: str = "") -> list[Any]:
    return list(client.get(page_of(model, "changelist") + query).context["cl"].result_list)


def counted(client: Client, query: str = "") -> dict[int, int]:
    return {run.pk: run.unresolved_effects for run in rows_of(client, Run, query)}


def filtered(client: Client) -> set[str]:
    return {effect.tool_call_id for effect in rows_of(client, ToolEffect, "?unresolved=1")}


def test_a_call_is_unresolved_in_the_list_of_runs_in_both_filters_and_on_the_page_alike(staff):
    run = make_run()
    make_effect(run, "unknown", reason="crash")
    make_effect(run, "settled", verdict="happened")
    make_effect(run, "done", status="completed")
    assert counted(staff) == counted(staff, "?unresolved=1") == {run.pk: 1}
    assert filtered(staff) == {"unknown"}
    response = staff.get(page_of(Run, "change", run.pk))
    assert [effect.tool_call_id for effect in response.context["unknown"]] == ["unknown"]
    (field,) = re.findall(r'field-unresolved_effects">(.*?)</div>', response.content.decode(), re.DOTALL)
    assert '<div class="readonly">1' in field


def test_a_call_that_a_live_run_or_its_delegate_still_makes_is_none(staff):
    run = make_run(status="running")
    make_effect(run, "going on")
    make_effect(run, "timed out", reason="timeout")
    delegate = make_delegate(run, "delegate")
    assert counted(staff) == {run.pk: 1, delegate.pk: 0}
    assert counted(staff, "?unresolved=1") == {run.pk: 1}
    assert filtered(staff) == {"timed out"}
    Run.objects.filter(pk=run.pk).update(status="orphaned")
    assert counted(staff, "?unresolved=1") == {run.pk: 3, delegate.pk: 1}
    assert filtered(staff) == {"going on", "timed out", "delegate"}


def test_the_calls_of_a_delegate_count_at_each_run_that_it_ran_inside(staff):
    other, run = make_run(), make_run()
    outer = make_delegate(run, "outer", status="completed")
    inner = make_delegate(outer, "inner")
    assert counted(staff) == {other.pk: 0, run.pk: 1, outer.pk: 1, inner.pk: 1}
    assert counted(staff, "?unresolved=1") == {run.pk: 1, outer.pk: 1, inner.pk: 1}


def test_delegates_inside_each_other_are_counted_once(staff):
    run = make_run()
    outer = make_delegate(run, "outer")
    inner = make_delegate(outer, "inner")
    Run.objects.filter(pk=outer.pk).update(parent_digest=inner.run_digest)
    assert counted(staff) == {run.pk: 0, outer.pk: 2, inner.pk: 2}
    assert counted(staff, "?unresolved=1") == {outer.pk: 2, inner.pk: 2}


@pytest.mark.parametrize("query", ["", "?unresolved=1"])
def test_the_list_of_runs_takes_the_same_queries_for_one_delegate_and_for_thirty(staff, query):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            counted(staff, query)
        return len(captured)

    make_delegate(make_run(status="running"), "delegate", reason="timeout")
    few = queries()
    for number in range(30):
        make_delegate(make_delegate(make_run(status="running"), f"outer {number}"), f"inner {number}", reason="timeout")
    assert queries() == few <= 15
