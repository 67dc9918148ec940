"""The page of a thread in the admin."""

import json

import pytest
from django.test import Client

from django_pydantic_agent.contrib.store.admin.payloads import SHOWN_CHARACTERS
from django_pydantic_agent.contrib.store.admin.threads import SHOWN_BYTES
from django_pydantic_agent.contrib.store.models import Run, Thread, ThreadMessage
from tests.store.admin_rows import client_of, make_rows, page_of
from tests.store.test_admin_runs import LONG, content_of, downloaded

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> Client:
    return client_of("staff")


def test_a_thread_shows_its_runs_and_a_page_of_its_messages(staff):
    (run,) = make_rows(1)
    thread = run.in_thread
    rows = [
        ThreadMessage(
            thread=thread, turn=2, run=run.pk, place=place, message_id=f"m{place}", role="assistant", through_seq=1,
            body=json.dumps({"content": f"number {place} " + LONG}).encode(),
        )
        for place in range(70)
    ]  # fmt: skip
    ThreadMessage.objects.bulk_create(rows)
    url = page_of(Thread, "change", thread.pk)
    seen, query = [], ""
    while query is not None:
        response = staff.get(url + query)
        assert len(response.content) < 60 * SHOWN_CHARACTERS + 50_000
        assert f'href="{page_of(Run, "change", run.pk)}"' in response.content.decode()
        seen += [message.message_id for message in response.context["messages_shown"]]
        last = response.context["next"]
        query = None if last is None else f"?after={last.turn}-{last.run}-{last.place}"
    assert seen == ["text", *(f"m{place}" for place in range(70))]
    exported = [json.loads(line) for line in downloaded(staff, page_of(Thread, "export", thread.pk)).splitlines()]
    assert [line["type"] for line in exported] == ["thread", *["message"] * 71]


def test_a_cut_message_of_a_thread_says_so_and_can_be_downloaded(staff):
    run, other = make_rows(2)
    whole = json.dumps({"content": "x" + "ä" * SHOWN_BYTES}, ensure_ascii=False)
    body = whole.encode()
    for piece, part in enumerate((body[:3_000], body[3_000:], b"of a longer one")):
        ThreadMessage.objects.create(
            thread=run.in_thread, turn=2, run=run.pk, place=0, piece=piece, pieces=2, message_id="long",
            role="assistant", through_seq=1, body=part,
        )  # fmt: skip
    page = page_of(Thread, "change", run.in_thread_id)
    content = content_of(staff, page)
    first = ThreadMessage.objects.get(message_id="long", piece=0)
    short = ThreadMessage.objects.get(thread=run.in_thread, turn=1)
    url = page_of(Thread, "message", run.in_thread_id, first.pk)
    assert content.count(f'href="{url}"') == content.count("Download all of it") == 1
    assert "\ufffd" not in content
    assert downloaded(staff, url) == whole
    assert json.loads(downloaded(staff, page_of(Thread, "message", run.in_thread_id, short.pk)))["content"] == "text"
    for thread, key in ((other.in_thread_id, first.pk), (run.in_thread_id, first.pk + 1)):
        assert staff.get(page_of(Thread, "message", thread, key)).status_code == 404
    assert client_of("other", "view_run", "export_thread").get(url).status_code == 403
