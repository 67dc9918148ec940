"""The page of a run in the admin: what happened, how much of it is read, and what may be done about it."""

import json

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from django_pydantic_agent.contrib.store.admin import filters
from django_pydantic_agent.contrib.store.admin.payloads import SHOWN_CHARACTERS
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Snapshot, Thread, ToolEffect
from django_pydantic_agent.contrib.store.timeline import MAX_ENTRIES, MAX_EVENTS
from django_pydantic_agent.runs.states import Decision
from django_pydantic_agent.signals import approval_decided
from tests.store.admin_rows import client_of, frames_of, make_rows, page_of, write_log
from tests.waiting import eventually

pytestmark = pytest.mark.django_db

LONG = "0123456789" * 1_000


@pytest.fixture
def staff() -> Client:
    return client_of("staff")


def content_of(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    return response.content.decode()


def downloaded(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"].startswith("attachment")
    return b"".join(response.streaming_content).decode()


def listed(client: Client, **query: str) -> list[int]:
    return [row.pk for row in client.get(page_of(Run, "changelist"), query).context["cl"].result_list]


def queries_of(client: Client, url: str) -> int:
    # The first page of a process also reads content types.
    content_of(client, url)
    with CaptureQueriesContext(connection) as captured:
        content_of(client, url)
    return len(captured)


def test_the_timeline_tells_messages_tool_calls_effects_and_attempts_in_order(staff):
    (run,) = make_rows(1)
    attempt = {"type": "MESSAGES_SNAPSHOT", "messages": [], "metadata": {"django_ag_ui": {"attempt": 2}}}
    frames = frames_of("said")
    write_log(run, [*frames[:-1], json.dumps(attempt).encode(), frames[-1]])
    call = ToolEffect.objects.get(run=run, status="started")
    write_log(run, [frame.replace(b"said started", call.tool_call_id.encode()) for frame in frames_of("said")[:-1]]
              + [json.dumps(attempt).encode(), frames[-1]])  # fmt: skip
    entries = [row["entry"] for row in staff.get(page_of(Run, "change", run.pk)).context["timeline"]]
    assert [(entry.seq, entry.kind, entry.title) for entry in entries] == [
        (1, "event", "Accepted"),
        (2, "reasoning", "Reasoning"),
        (5, "message", "Message of the assistant"),
        (8, "call", "said"),
        (12, "event", "CUSTOM"),
        (13, "event", "Attempt 2 begins"),
        (14, "event", "Failed: said"),
    ]
    assert [entry.text for entry in entries[:4]] == ["said"] * 4
    assert (entries[3].result, entries[3].effect) == ("said", call)


@pytest.mark.parametrize(
    ("outcome", "title"),
    [("cancelled", "Cancelled"), ("interrupt", "Interrupted"), ("success", "Finished"), (None, "Finished")],
)
def test_the_last_entry_of_a_timeline_tells_how_the_run_ended(staff, outcome, title):
    (run,) = make_rows(1)
    end = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"} | ({"outcome": {"type": outcome}} if outcome else {})
    write_log(run, [*frames_of("said")[:-1], json.dumps(end).encode()])
    entries = [row["entry"] for row in staff.get(page_of(Run, "change", run.pk)).context["timeline"]]
    assert entries[-1].title == title


def test_encrypted_reasoning_is_named_and_not_shown(staff):
    (run,) = make_rows(1)
    value = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r1", "encryptedValue": "c2VjcmV0"}
    write_log(run, [frames_of("said")[0], json.dumps(value).encode()])
    content = content_of(staff, page_of(Run, "change", run.pk))
    assert "Encrypted reasoning" in content
    assert "c2VjcmV0" not in content


def test_the_effect_of_a_call_that_repeats_an_id_is_found_by_the_id_that_the_model_gave(staff):
    (run,) = make_rows(1)
    write_log(run, [frame.replace(b"text started", b"text started~2") for frame in frames_of("text")])
    entries = [row["entry"] for row in staff.get(page_of(Run, "change", run.pk)).context["timeline"]]
    (call,) = (entry for entry in entries if entry.kind == "call")
    assert call.effect == ToolEffect.objects.get(run=run, status="started")


def test_large_texts_are_cut_and_can_be_had_whole(staff):
    (run,) = make_rows(1)
    write_log(run, frames_of(LONG, deltas=3))
    Run.objects.filter(pk=run.pk).update(metadata={"long": LONG}, input=LONG.encode(), preview=LONG)
    content = content_of(staff, page_of(Run, "change", run.pk))
    assert len(content) < 30 * SHOWN_CHARACTERS
    assert downloaded(staff, page_of(Run, "text", run.pk, 5)) == LONG * 3
    assert downloaded(staff, page_of(Run, "text", run.pk, 10)) == LONG
    assert downloaded(staff, page_of(Run, "text", run.pk, 13)) == LONG
    assert json.loads(downloaded(staff, page_of(Run, "event", run.pk, 6)))["delta"] == LONG
    assert json.loads(downloaded(staff, page_of(Run, "payload", run.pk, "metadata"))) == {"long": LONG}
    assert downloaded(staff, page_of(Run, "payload", run.pk, "input")) == LONG
    for url in (page_of(Run, "text", run.pk, 5), page_of(Run, "text", run.pk, 13), "payload/preview", "payload/input"):
        assert url in content


def test_only_what_a_page_may_show_can_be_downloaded(staff):
    (run,) = make_rows(1)
    for url in (
        page_of(Run, "payload", run.pk, "folded"),
        page_of(Run, "payload", run.pk, "owner_digest"),
        page_of(Run, "text", run.pk, 0),
        page_of(Run, "event", run.pk, 1_000),
        page_of(Run, "text", run.pk + 1, 1),
    ):
        assert staff.get(url).status_code == 404


def test_the_page_of_a_run_takes_the_same_queries_for_3_and_for_300_events(staff):
    few, many = make_rows(2)
    frames = frames_of("text")
    write_log(few, [frames[0], frames[7], frames[-1]])
    write_log(many, frames_of("text", deltas=288))
    for name in ("change", "events"):
        numbers = [queries_of(staff, page_of(Run, name, run.pk)) for run in (few, many)]
        assert numbers[0] == numbers[1] <= 15, name


def test_a_long_log_is_read_page_by_page(staff):
    (run,) = make_rows(1)
    frames = frames_of("text")
    write_log(run, [frames[0], *[frames[-2]] * 3 * MAX_ENTRIES, frames[-1]])
    for name, rows in (("change", "timeline"), ("events", "rows")):
        seen, after = [], "0"
        while after is not None:
            context = staff.get(page_of(Run, name, run.pk), {"after": after}).context
            page = [row["entry"].seq if name == "change" else row[0] for row in context[rows]]
            assert len(page) <= max(MAX_ENTRIES, MAX_EVENTS)
            seen += page
            after = context["next"]
        assert seen == list(range(1, 3 * MAX_ENTRIES + 3))
    for after in ("-1", "x", "999999999999999999999"):
        content_of(staff, f"{page_of(Run, 'change', run.pk)}?after={after}")


def test_what_is_not_kept_of_a_log_is_said(staff):
    (run,) = make_rows(1)
    frames = frames_of("text")
    run.frames.all().delete()
    Run.objects.filter(pk=run.pk).update(first_seq=len(frames) + 1, last_seq=len(frames))
    for name in ("change", "events"):
        content = content_of(staff, page_of(Run, name, run.pk))
        assert f"before number {len(frames) + 1} are not kept" in content
        assert "There are no events here." in content
    assert staff.get(page_of(Run, "text", run.pk, 5)).status_code == 404


def test_a_run_leads_to_its_parent_children_thread_and_questions(staff):
    parent, run, child = make_rows(3)
    Run.objects.filter(pk=run.pk).update(parent=parent)
    Run.objects.filter(pk=child.pk).update(parent=run)
    content = content_of(staff, page_of(Run, "change", run.pk))
    asked = Interrupt.objects.get(run=run)
    for url in (
        page_of(Run, "change", parent.pk),
        page_of(Run, "change", child.pk),
        page_of(Thread, "change", run.in_thread_id),
        page_of(Interrupt, "change", asked.pk),
    ):
        assert f'href="{url}"' in content


def test_runs_are_found_by_preview_and_filtered_by_server_approval_and_age(staff):
    run, other = make_rows(2)
    Run.objects.filter(pk=run.pk).update(preview="plant a birch", server="forester")
    Interrupt.objects.filter(run=run).update(decision=Decision.PENDING)
    assert listed(staff, q="birch") == [run.pk]
    assert listed(staff, server="forester") == [run.pk]
    assert listed(staff, waiting="1") == [run.pk]
    assert listed(staff, started="1") == []
    Run.objects.filter(pk=other.pk).update(created_at=filters.datetime.now(filters.UTC))
    assert listed(staff, started="1") == [other.pk]
    assert listed(staff, started="junk") == listed(staff) == [other.pk, run.pk]


def test_the_list_shows_tokens_and_the_code_of_the_error_alone(staff):
    make_rows(1)
    content = content_of(staff, page_of(Run, "changelist"))
    assert '<td class="field-tokens">11 / 22</td>' in content
    assert '<td class="field-error_code">text</td>' in content


def test_a_call_that_still_goes_on_is_not_called_unknown(staff):
    (run,) = make_rows(1)
    effect = ToolEffect.objects.get(run=run, status="started")
    settle = page_of(ToolEffect, "settle", effect.pk)
    for status, is_unknown in (("running", False), ("orphaned", True)):
        Run.objects.filter(pk=run.pk).update(status=status)
        pages = [page_of(Run, "change", run.pk), page_of(ToolEffect, "change", effect.pk)]
        assert [settle in content_of(staff, page) for page in pages] == [is_unknown] * 2
        assert listed(staff, unresolved="1") == [run.pk] * is_unknown


@pytest.mark.parametrize("moment", [1e30, 10**400, "now", None, [1]])
def test_a_time_that_is_none_is_left_out(staff, moment):
    (run,) = make_rows(1)
    write_log(run, [json.dumps({"type": "CUSTOM", "name": "odd", "value": 1, "timestamp": moment}).encode()])
    assert "odd" in content_of(staff, page_of(Run, "change", run.pk))


def test_export_holds_the_whole_run(staff):
    run, other = make_rows(2)
    Snapshot.objects.update(history_writer=0, history_number=0, history_size=0)
    lines = [json.loads(line) for line in downloaded(staff, page_of(Run, "export", run.pk)).splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "run"
    assert kinds.count("event") == len(frames_of("text"))
    assert {"stepevent", "snapshot", "tooleffect", "interrupt"} <= set(kinds)
    assert downloaded(staff, page_of(Run, "log", run.pk)).encode().splitlines() == frames_of("text")
    chosen = {"action": "export", "_selected_action": [run.pk, other.pk]}
    both = b"".join(staff.post(page_of(Run, "changelist"), chosen).streaming_content).decode().splitlines()
    assert [json.loads(line)["id"] for line in both if '"type":"run"' in line] == [run.pk, other.pk]


def test_a_live_run_is_asked_to_stop_and_one_that_waits_gives_up(staff):
    live, waiting, ended = make_rows(3)
    Run.objects.filter(pk=live.pk).update(status="running")
    Run.objects.filter(pk=waiting.pk).update(status="interrupted")
    Interrupt.objects.filter(run=waiting).update(decision=Decision.PENDING)
    for run, offered in ((live, True), (waiting, True), (ended, False)):
        assert (page_of(Run, "cancel", run.pk) in content_of(staff, page_of(Run, "change", run.pk))) is offered
    everything = {"action": "cancel", "_selected_action": [live.pk, waiting.pk, ended.pk]}
    decided = []

    def hear(interrupt_id, decision, **about):
        decided.append((about["run_id"], decision))

    approval_decided.connect(hear)
    response = staff.post(page_of(Run, "changelist"), everything, follow=True)
    assert "2 runs were cancelled or asked to stop." in response.content.decode()
    assert eventually(lambda: decided) == [(waiting.run_id, "cancelled")]
    assert Run.objects.get(pk=live.pk).cancel_requested
    assert Interrupt.objects.get(run=waiting).decision == Decision.CANCELLED
    assert not Run.objects.get(pk=ended.pk).cancel_requested
    assert sorted(LogEntry.objects.values_list("object_id", flat=True)) == sorted([str(live.pk), str(waiting.pk)])
    response = staff.post(page_of(Run, "cancel", ended.pk), follow=True)
    assert "The run has ended already." in response.content.decode()
    assert staff.get(page_of(Run, "cancel", live.pk)).status_code == 405


def test_of_all_runs_over_many_pages_none_is_cancelled_where_they_are_too_many(staff, monkeypatch):
    monkeypatch.setattr("django_pydantic_agent.contrib.store.admin.base.MAX_AT_ONCE", 3)
    runs = make_rows(4)
    Run.objects.update(status="running")
    chosen = {"action": "cancel", "_selected_action": [runs[0].pk], "select_across": "1"}
    response = staff.post(page_of(Run, "changelist"), chosen, follow=True)
    assert "Select at most 3 runs." in response.content.decode()
    assert not Run.objects.filter(cancel_requested=True).exists()
    few = {"action": "cancel", "_selected_action": [run.pk for run in runs[1:]]}
    response = staff.post(page_of(Run, "changelist"), few, follow=True)
    assert "3 runs were cancelled or asked to stop." in response.content.decode()


@pytest.mark.parametrize(
    ("permissions", "may"),
    [
        (["view_run"], set()),
        (["view_run", "cancel_run"], {"cancel"}),
        (["view_run", "export_run"], {"export", "log"}),
        (["cancel_run", "export_run"], set()),
    ],
    ids=lambda value: "-".join(sorted(value)),
)
def test_C41_cancel_and_export_each_need_their_permission_and_that_to_view(permissions, may):
    (run,) = make_rows(1)
    Run.objects.filter(pk=run.pk).update(status="running")
    client = client_of("other", *permissions)
    for name, method in (("cancel", client.post), ("export", client.get), ("log", client.get)):
        response = method(page_of(Run, name, run.pk))
        assert (response.status_code != 403) is (name in may), name
    Run.objects.filter(pk=run.pk).update(cancel_requested=False)
    for name in ("cancel", "export"):
        chosen = {"action": name, "_selected_action": [run.pk]}
        assert (client.post(page_of(Run, "changelist"), chosen).status_code != 403) is (name in may)
    assert Run.objects.get(pk=run.pk).cancel_requested is ("cancel" in may)
    page = client.get(page_of(Run, "change", run.pk)).content.decode()
    assert (page_of(Run, "export", run.pk) in page, page_of(Run, "cancel", run.pk) in page) == (
        "export" in may,
        "cancel" in may,
    )
    if "view_run" in permissions:
        listing = client.get(page_of(Run, "changelist")).content.decode()
        assert {name for name in ("cancel", "export") if f'value="{name}"' in listing} == may & {"cancel", "export"}


def test_C40_events_and_their_downloads_are_text(staff):
    script = "</script><img src=x onerror=alert(1)>"
    (run,) = make_rows(1, script)
    content = content_of(staff, page_of(Run, "events", run.pk))
    assert script not in content
    assert escape(script) in content
    response = staff.get(page_of(Run, "text", run.pk, 5))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
