"""The store app in the admin: read-only, and no slower for large tables."""

import re
from typing import Any

import pytest
from django.contrib.admin import ShowFacets, site
from django.contrib.auth import get_user_model
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pydantic_agent.contrib.store.admin.base import BoundedPaginator
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Snapshot, StepEvent, Thread, ToolEffect
from django_pydantic_agent.contrib.store.run_store import new_row
from django_pydantic_agent.ownership import Owner
from tests.store.admin_rows import NOON, client_of, make_rows, page_of

pytestmark = pytest.mark.django_db

SHOWN = [Run, Thread, StepEvent, Snapshot, ToolEffect, Interrupt]
SCRIPT = "</script><img src=x onerror=alert(1)>"
shown = pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)


@pytest.fixture
def staff() -> Client:
    """A member of staff who may see everything of the app and change everything."""
    return client_of("staff")


def columns_of(sql: str) -> set[str]:
    """Return the columns that a SELECT has the database send as they are."""
    return set(re.findall(r"(?:SELECT |, )[^\s(]+\W(\w+)\W(?=,| FROM)", sql))


def payload_columns(model: Any) -> set[str]:
    """Return the columns of a model that may be large, but for previews."""
    payloads = {*site._registry[model].payloads, "timing", "verdict_note"} - {"title", "preview"}
    binary = {field.name for field in model._meta.fields if isinstance(field, models.BinaryField | models.JSONField)}
    return payloads | binary


@shown
def test_lists_take_the_same_queries_however_many_rows_there_are(staff, model):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert staff.get(page_of(model, "changelist")).status_code == 200
        return [query["sql"] for query in captured]

    make_rows(1)
    few = queries()
    make_rows(30)
    many = queries()
    assert len(few) == len(many) <= 11
    for sql in many:
        assert not columns_of(sql) & payload_columns(model), sql


@shown
def test_details_show_each_field_of_the_record(staff, model):
    make_rows(1)
    row = model.objects.first()
    response = staff.get(page_of(model, "change", row.pk))
    assert response.status_code == 200
    assert b'type="submit"' not in response.content.split(b'<div id="content')[1]


@shown
def test_nothing_can_be_added_changed_or_deleted(staff, model):
    make_rows(1)
    row = model.objects.first()
    before = list(model.objects.values_list())
    assert staff.get(page_of(model, "add")).status_code == 403
    for name in ("change", "delete"):
        assert staff.post(page_of(model, name, row.pk), {"post": "yes"}).status_code == 403
    staff.post(page_of(model, "changelist"), {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
    assert list(model.objects.values_list()) == before


@shown
def test_staff_without_permission_sees_nothing(model):
    make_rows(1)
    client = Client()
    client.force_login(get_user_model().objects.create_user("other", is_staff=True))
    for url in (page_of(model, "changelist"), page_of(model, "change", model.objects.first().pk)):
        assert client.get(url).status_code == 403


@shown
def test_C40_stored_text_is_shown_as_text(staff, model):
    make_rows(1, SCRIPT)
    for url in (page_of(model, "changelist"), page_of(model, "change", model.objects.first().pk)):
        content = staff.get(url).content.decode()
        assert SCRIPT not in content
        assert "&lt;/script&gt;&lt;img" in content


def test_a_run_shows_how_it_went(staff):
    make_rows(1)
    content = staff.get(page_of(Run, "changelist")).content.decode()
    for text in ("Finished", "user:text", "0:01:30"):
        assert text in content


def test_a_run_shows_its_times_and_what_is_kept_of_its_log(staff):
    (run,) = make_rows(1)
    for first_seq, shown_events in [(1, "1-1000"), (901, "901-1000"), (1001, "none of 1000")]:
        timing = {"accepted": "2026-07-27T12:00:00+00:00", "first_delta": 0.25, "commits": 7}
        Run.objects.filter(pk=run.pk).update(first_seq=first_seq, last_seq=1000, timing=timing)
        content = staff.get(page_of(Run, "change", run.pk)).content.decode()
        assert f'<div class="readonly">{shown_events}</div>' in content
        for text in ("accepted: 2026-07-27T12:00:00+00:00", "first delta: 0.250 s", "last delta: -", "commits: 7"):
            assert f"<div>{text}</div>" in content


def test_a_snapshot_shows_its_size_and_number_of_messages(staff):
    make_rows(1)
    content = staff.get(page_of(Snapshot, "changelist")).content.decode()
    assert "678" in content
    assert "12345" in content.replace(",", "")


@pytest.mark.parametrize("model", [StepEvent, Snapshot, ToolEffect, Interrupt], ids=lambda model: model.__name__)
def test_a_run_leads_to_its_ledger(staff, model):
    run, _ = make_rows(2)
    url = f"{page_of(model, 'changelist')}?run__id__exact={run.pk}"
    assert url in staff.get(page_of(Run, "change", run.pk)).content.decode()
    rows = staff.get(url).context["cl"].result_list
    assert {row.run_id for row in rows} == {run.pk}


def test_C25_runs_are_found_by_their_owner(staff):
    for owner in (Owner("user:00000000-0000-4000-8000-000000000001"), Owner("user:anon:x"), Owner("user:1")):
        new_row(owner, "", run_id=owner.key, created_at=NOON).save()
    rows = staff.get(page_of(Run, "changelist"), {"q": "anon:x"}).context["cl"].result_list
    assert [row.owner for row in rows] == ["user:anon:x"]


def test_large_tables_are_not_counted_to_the_end(monkeypatch):
    make_rows(5)
    monkeypatch.setattr("django_pydantic_agent.contrib.store.admin.base.COUNTED_ROWS", 3)
    with CaptureQueriesContext(connection) as queries:
        assert BoundedPaginator(Run.objects.order_by("pk"), 2).count == 3
    assert "LIMIT 3" in queries[0]["sql"]


def test_every_admin_of_the_app_is_bounded():
    for model in SHOWN:
        model_admin = site._registry[model]
        assert model_admin.paginator is BoundedPaginator
        assert not model_admin.show_full_result_count
        assert model_admin.show_facets is ShowFacets.NEVER
