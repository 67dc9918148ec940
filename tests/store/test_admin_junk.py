"""Whatever somebody writes into the address of a page of the admin or into a form on it, no page fails over it."""

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib.admin import site
from django.test import Client

from django_pydantic_agent.contrib.store.models import Interrupt, Run, Snapshot, StepEvent, Thread, ToolEffect
from tests.store.admin_rows import client_of, make_rows, page_of

pytestmark = pytest.mark.django_db(transaction=True)

SHOWN = [Run, Thread, StepEvent, Snapshot, ToolEffect, Interrupt]
HUGE = "9" * 30
JUNK = ["a\0", "x" * 60_000, "a " * 500, "\udcff", HUGE, "9" * 5_000, ""]
PARAMETERS = [
    *("q", "_to_field", "\0", "unknown", "owner"),
    *("status__exact", "server", "started", "unresolved", "is_archived__exact", "state__exact"),
    *("decision__exact", "verdict__isnull", "run__id__exact", "in_thread__id__exact", "parent__id__exact"),
    *("pk__in", "created_at__gte", "timestamp__date", "metadata__a"),
]
shown = pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)


@pytest.fixture
def staff() -> Client:
    make_rows(1)
    Snapshot.objects.update(history_writer=0, history_number=0, history_size=0)
    client = client_of("staff")
    client.raise_request_exception = False
    return client


def failed(response: Any) -> bool:
    b"".join(response)
    return bool(response.status_code >= 500)


@shown
def test_no_list_fails(staff: Client, model: Any):
    url = page_of(model, "changelist")
    for name in PARAMETERS:
        queries = {junk: urlencode({name: junk}, errors="surrogateescape") for junk in JUNK}
        assert [junk[:9] for junk, query in queries.items() if failed(staff.get(f"{url}?{query}"))] == [], name


@shown
def test_no_page_about_a_row_fails(staff: Client, model: Any):
    base, key = page_of(model, "changelist"), model.objects.first().pk
    for junk in (quote(junk, safe="", errors="surrogateescape") for junk in JUNK):
        for path in (
            *(
                f"{junk}/{page}/"
                for page in ("change", "history", "payload/input", "export", "events", "log", "settle")
            ),
            *(f"{key}/{page}/{junk}/" for page in ("payload", "event", "text")),
            *(f"{key}/{page}/?after={junk}" for page in ("change", "events", "log")),
            *(f"{key}/change/?{name}={junk}" for name in ("_to_field", "_changelist_filters")),
            f"{key}/change/?after={junk}-{junk}-{junk}",
        ):
            assert not failed(staff.get(f"{base}{path}")), path[:90]


@shown
def test_no_action_fails(staff: Client, model: Any):
    key, url = model.objects.first().pk, page_of(model, "changelist")
    for action in site._registry[model].actions or ():
        for junk in (junk.encode(errors="replace").decode() for junk in JUNK):
            for fields in (
                {"_selected_action": junk},
                {"_selected_action": [key, junk]},
                {"_selected_action": key, "index": junk},
                {"_selected_action": key, "settle": "1", "verdict": junk, "note": junk},
            ):
                assert not failed(staff.post(url, {"action": action, **fields})), (action, fields)


def test_what_is_too_long_to_search_for_is_said_and_not_searched_for(staff: Client):
    for text, number in [("x" * 1_000, 0), ("x" * 1_001, 1)]:
        response = staff.get(page_of(Run, "changelist"), {"q": text})
        assert len(response.context["cl"].result_list) == number
        assert ("at most 1000 characters" in response.content.decode()) is bool(number)
