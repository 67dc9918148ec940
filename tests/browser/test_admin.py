"""The admin in Chromium: how an operator finds out what happened, and what nobody may be kept out by."""

import pytest

from django_pydantic_agent.contrib.store.models import Interrupt, Run, Thread, ToolEffect
from tests.browser.conversation import begin, press, url
from tests.live.scripts import call, spell, think
from tests.live.visitors import Visitor, fresh
from tests.store.admin_rows import page_of

# What a browser shows is the same on every database, and comes late where others want the processor.
pytestmark = [pytest.mark.browser, pytest.mark.sqlite]


OF_DJANGO = (".breadcrumbs", ".small")
"""Where the admin itself tells links from the text around them by their colour alone."""


@pytest.fixture
def operator(on_live_database):
    """Somebody who may do everything in the admin, and owns none of the runs."""
    operator = Visitor.new()
    operator.user.is_staff = operator.user.is_superuser = True
    operator.user.save()
    return operator


def test_killed_after_a_side_effect_a_run_is_settled_in_the_admin_and_goes_on_without_acting_again(
    start, browser, visitor, operator, gates
):
    within = fresh("within")
    with start() as server:
        charge = call("charge", call_id="c1", number=4711, gate=within)
        thread, run = begin(visitor, server, [spell("before"), charge], ["and after"])
        gates.wait_reached(within)
        server.kill()
    with start(port=server.port), browser.profile(operator) as profile:
        assert visitor.ended(run).status == "orphaned"
        tab = profile.open(f"{server.url}{page_of(Run, 'changelist')}?unresolved=1")
        tab("click", f"#result_list a:text-is('{run}')")
        tab.see(".dpa-unknown", "charge")
        tab.see(".dpa-unknown", "crash")
        tab.see(".dpa-entry[data-kind=call]", "started, crash")
        tab("click", ".dpa-unknown a:text-is('Settle')")
        tab.see(".dpa-effects", '"number":4711')
        tab("check", "input[value=happened]")
        tab("fill", "textarea[name=note]", "the bank shows it")
        tab("click", "input[type=submit][name=settle]")
        tab.see(".messagelist", "1 tool effect is settled.")
        tab.see(".field-verdict_note", "the bank shows it")
        tab.see(".field-status", "started")
        tab("click", ".field-run_link a")
        tab.see(".dpa-entry[data-kind=call]", "it happened")
        tab.miss(".dpa-unknown")
        export = tab("download", ".object-tools a:text-is('Export')")
        assert '"verdict":"happened"' in export["text"]
        assert tab("faults") == []
        with browser.profile(visitor) as own:
            conversation = own.open(url(server, thread))
            press(conversation, "Go on from where it was cut")
            conversation.see(".ag-ui-run-state", "Finished.")
        assert gates.count("charge 4711") == 1


def test_no_page_of_the_admin_keeps_anybody_out_light_or_dark_and_narrow(server, browser, visitor, operator, gates):
    within = fresh("within")
    long = "long" * 2_000
    said, run = begin(visitor, server, [think("hmm"), f"<b>{long}</b>"])
    _, asked = begin(visitor, server, [call("order", call_id="c1", number=3)])
    _, stopped = begin(visitor, server, [call("hold", call_id="c1", gate=within)])
    visitor.ended(run), visitor.ended(asked)
    gates.wait_reached(within)
    held = visitor.row(stopped)
    effect = ToolEffect.objects.get(run=held)
    ToolEffect.objects.filter(pk=effect.pk).update(reason="crash")
    keys = {name: visitor.row(id_).pk for name, id_ in {"said": run, "asked": asked}.items()}
    thread = Thread.objects.get(thread_id=said)
    pages = [
        page_of(Run, "changelist"),
        page_of(Run, "change", keys["said"]),
        page_of(Run, "change", keys["asked"]),
        page_of(Run, "change", held.pk),
        page_of(Run, "events", keys["said"]),
        page_of(ToolEffect, "change", effect.pk),
        page_of(ToolEffect, "settle", effect.pk),
        page_of(Interrupt, "change", Interrupt.objects.get(run=keys["asked"]).pk),
        page_of(Thread, "change", thread.pk),
    ]
    problems = []
    narrow = {"viewport": {"width": 320, "height": 640}, "reducedMotion": "reduce"}
    with browser.profile(operator, **narrow) as profile:
        for page in pages:
            tab = profile.open(server.url + page)
            tab.see("h1")
            problems += [(page, fault) for fault in tab("faults")]
            if (width := tab("evaluate", "document.documentElement.scrollWidth")) > 320:
                problems.append((page, width))
            for scheme in ("light", "dark"):
                tab("emulateMedia", {"colorScheme": scheme})
                found = (violation for violation in tab("violations") if not any(map(violation.count, OF_DJANGO)))
                problems += [(page, scheme, violation) for violation in found]
            tab("close")
    gates.open(within)
    assert problems == []


@pytest.mark.parametrize("model", [Run, Thread, ToolEffect, Interrupt], ids=lambda model: model.__name__)
def test_no_long_id_pushes_the_other_columns_of_a_list_away(server, browser, visitor, operator, model):
    thread, run = begin(visitor, server, [call("order", call_id="c1", number=3)])
    visitor.ended(run)
    long = "long" * 250
    names = ["thread_id", "title", "preview", "owner", "scope"]
    Thread.objects.filter(thread_id=thread).update(**dict.fromkeys(names, long))
    row = Run.objects.filter(pk=visitor.row(run).pk)
    ToolEffect.objects.create(run=row.get(), started_at=row.get().created_at, tool_call_id=long, tool_name=long)
    Interrupt.objects.filter(run=row.get()).update(tool_name=long, tool_call_id=long, decider=long)
    row.update(**dict.fromkeys(["run_id", "thread_id", "owner", "preview", "server", "agent_name"], long))
    widest = "Math.max(...[...document.querySelectorAll('#result_list :is(th, td)')].map((cell) => cell.offsetWidth))"
    with browser.profile(operator) as profile:
        tab = profile.open(server.url + page_of(model, "changelist"))
        tab.see("#result_list", "longlong")
        assert tab("evaluate", widest) < 320
