"""Settling tool effects in the admin."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client

from django_pydantic_agent.contrib.store.effects import settle
from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS, Verdict
from tests.store.admin_rows import client_of, make_rows, page_of

pytestmark = pytest.mark.django_db

HAPPENED = {"settle": "1", "verdict": "happened", "note": "the bank shows it"}
LIST = "changelist"


@pytest.fixture
def staff() -> Client:
    return client_of("staff", "view_tooleffect", "change_tooleffect")


def unknown_effects(number: int = 1) -> list[ToolEffect]:
    make_rows(number)
    return list(ToolEffect.objects.filter(status="started").order_by("pk"))


def settle_page(effect: ToolEffect) -> str:
    return page_of(ToolEffect, "settle", effect.pk)


def test_a_verdict_says_who_when_and_why_and_leaves_the_status(staff):
    (effect,) = unknown_effects()
    content = staff.get(page_of(ToolEffect, "change", effect.pk)).content.decode()
    assert f'href="{settle_page(effect)}"' in content
    assert "text" in staff.get(settle_page(effect)).content.decode()
    response = staff.post(settle_page(effect), HAPPENED, follow=True)
    assert "1 tool effect is settled." in response.content.decode()
    effect.refresh_from_db()
    user = get_user_model().objects.get(username="staff")
    assert (effect.status, effect.verdict, effect.verdict_note) == ("started", "happened", "the bank shows it")
    assert (effect.verdict_by, effect.verdict_at is None) == (f"user:{user.pk}", False)
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (user, str(effect.pk))
    assert "it happened" in entry.get_change_message()
    assert "the bank shows it" in entry.get_change_message()
    history = staff.get(page_of(ToolEffect, "history", effect.pk)).content.decode()
    assert "the bank shows it" in history
    assert settle_page(effect) not in staff.get(page_of(ToolEffect, "change", effect.pk)).content.decode()


def test_without_a_verdict_nothing_is_settled(staff):
    (effect,) = unknown_effects()
    for posted in (
        {"settle": "1"},
        {"settle": "1", "verdict": "perhaps"},
        {**HAPPENED, "note": "x" * (MAX_NOTE_CHARACTERS + 1)},
        {"verdict": "happened"},
    ):
        assert staff.post(settle_page(effect), posted).status_code == 200
    staff.get(settle_page(effect), HAPPENED)
    effect.refresh_from_db()
    assert effect.verdict == ""
    assert not LogEntry.objects.exists()


def test_several_effects_are_settled_at_once_after_a_page_that_asks(staff):
    chosen = unknown_effects(3)[:2]
    posted = {"action": "settle", "_selected_action": [effect.pk for effect in chosen]}
    url = page_of(ToolEffect, LIST) + "?unresolved=1"
    asked = staff.post(url, posted)
    assert asked.status_code == 200
    assert not ToolEffect.objects.exclude(verdict="").exists()
    for effect in chosen:
        assert f'name="_selected_action" value="{effect.pk}"' in " ".join(asked.content.decode().split())
    response = staff.post(url, posted | HAPPENED | {"verdict": "ignored"}, follow=True)
    assert "2 tool effects are settled." in response.content.decode()
    assert set(ToolEffect.objects.filter(verdict="ignored")) == set(chosen)
    assert LogEntry.objects.count() == 2


def test_C41_of_all_over_many_pages_no_more_are_settled_than_one_page_shows(staff, monkeypatch):
    monkeypatch.setattr("django_pydantic_agent.contrib.store.admin.base.MAX_AT_ONCE", 3)
    first = unknown_effects(4)[0]
    posted = {"action": "settle", "_selected_action": [first.pk], "select_across": "1", **HAPPENED}
    response = staff.post(page_of(ToolEffect, LIST), posted, follow=True)
    assert "Select at most 3 tool effects." in response.content.decode()
    assert not ToolEffect.objects.exclude(verdict="").exists()


def test_C41_the_second_of_two_verdicts_is_told_of_the_first(staff):
    (effect,) = unknown_effects()
    assert settle(effect.pk, Verdict.DID_NOT_HAPPEN, by="user:7")
    response = staff.post(settle_page(effect), HAPPENED, follow=True)
    assert "has a verdict already, by user:7: it did not happen." in response.content.decode()
    response = staff.get(settle_page(effect), follow=True)
    assert response.redirect_chain == [(page_of(ToolEffect, "change", effect.pk), 302)]
    effect.refresh_from_db()
    assert (effect.verdict, effect.verdict_by) == ("did_not_happen", "user:7")
    assert not LogEntry.objects.exists()


def test_C41_what_has_completed_meanwhile_or_may_still_go_on_is_not_settled(staff):
    completed, live = unknown_effects(2)
    ToolEffect.objects.filter(pk=completed.pk).update(status="completed")
    Run.objects.filter(pk=live.run_id).update(status="running")
    for effect, told in ((completed, "is known to be completed"), (live, "may still be going on")):
        response = staff.post(settle_page(effect), HAPPENED, follow=True)
        assert told in response.content.decode()
    assert not ToolEffect.objects.exclude(verdict="").exists()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("permissions", [["view_tooleffect"], ["view_run", "cancel_run"]], ids="-".join)
def test_C41_to_settle_needs_the_permission_to_change_tool_effects(permissions):
    (effect,) = unknown_effects()
    client = client_of("other", *permissions)
    assert client.get(settle_page(effect)).status_code == 403
    assert client.post(settle_page(effect), HAPPENED).status_code == 403
    posted = {"action": "settle", "_selected_action": [effect.pk], **HAPPENED}
    assert client.post(page_of(ToolEffect, LIST), posted).status_code == 403
    assert ToolEffect.objects.get(pk=effect.pk).verdict == ""
    if permissions == ["view_tooleffect"]:
        for name, *args in ((LIST,), ("change", effect.pk)):
            content = client.get(page_of(ToolEffect, name, *args)).content.decode()
            assert "Settle" not in content


def test_C41_without_a_token_of_the_site_nothing_is_settled():
    (effect,) = unknown_effects()
    other = client_of("other")
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = other.cookies
    assert careful.post(settle_page(effect), HAPPENED).status_code == 403
    assert ToolEffect.objects.get(pk=effect.pk).verdict == ""


def test_C40_what_is_settled_is_shown_as_text_everywhere(staff):
    script = "</script><img src=x onerror=alert(1)>"
    make_rows(2, script)
    settled, other = ToolEffect.objects.filter(status="started")
    everything = {"action": "settle", "_selected_action": [settled.pk, other.pk]}
    pages = [
        staff.get(settle_page(settled)),
        staff.post(page_of(ToolEffect, LIST), everything),
        staff.post(settle_page(settled), {**HAPPENED, "note": script, "verdict": "x"}),
        staff.post(settle_page(settled), {**HAPPENED, "note": script}, follow=True),
        staff.get(page_of(ToolEffect, "history", settled.pk)),
    ]
    for page in pages:
        assert script not in page.content.decode()
        assert "&lt;/script&gt;&lt;img" in page.content.decode()
