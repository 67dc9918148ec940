"""Words that are stored or logged in English, in the admin in the language of who looks at them."""

import pytest
from django.test import Client

from django_pydantic_agent.contrib.store.effects import refusal, settle
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Thread, ToolEffect
from django_pydantic_agent.stores.effects import Verdict
from tests.store.admin_rows import client_of, make_effect, make_rows, page_of
from tests.translated import translate

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return the browser of a member of staff who reads another language than that of the texts."""
    client = client_of("staff")
    translate(monkeypatch)
    return client


def test_the_page_of_a_run_tells_times_roles_and_reasons(staff):
    (run,) = make_rows(1)
    make_effect(run, "unknown", reason="crash")
    Run.objects.filter(pk=run.pk).update(timing={"first_delta": 0.25})
    content = staff.get(page_of(Run, "change", run.pk)).content.decode()
    for text in ("<div>[first delta]: 0.250 s</div>", "[Message of the [assistant]]", "[crash]"):
        assert text in content


def test_effects_tell_their_reason_in_lists_and_on_pages(staff):
    (run,) = make_rows(1)
    effect = make_effect(run, "unknown", reason="timeout")
    pages = [
        page_of(ToolEffect, "changelist"),
        *(page_of(ToolEffect, name, effect.pk) for name in ("change", "settle")),
    ]
    for page in pages:
        assert "[timeout]" in staff.get(page).content.decode()
    assert ToolEffect.objects.get(pk=effect.pk).reason == "timeout"


def test_the_page_of_a_thread_tells_who_speaks(staff):
    (run,) = make_rows(1)
    assert "[user]" in staff.get(page_of(Thread, "change", run.in_thread_id)).content.decode()


def test_why_no_verdict_is_taken_is_told_without_stored_words(staff):
    (run,) = make_rows(1)
    unknown, completed = ToolEffect.objects.filter(run=run).order_by("pk")
    assert refusal(completed.pk) == f"[Effect {completed.pk} is known to be [completed].]"
    settle(unknown.pk, Verdict.DID_NOT_HAPPEN, by="ada")
    assert refusal(unknown.pk) == f"[Effect {unknown.pk} has a verdict already, by ada: [it did not happen].]"


def test_lists_tell_what_became_of_runs_and_questions(staff):
    make_rows(1)
    for model, state in ((Run, "[Finished]"), (Interrupt, "[Denied]")):
        assert f">{state}</td>" in staff.get(page_of(model, "changelist")).content.decode()
