"""What a person decides is done once, whichever process hears it, how often, and after whatever restart."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from django_pydantic_agent.contrib.store.models import Interrupt, Run
from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, gate, script
from tests.live.visitors import Visitor, at_once, fresh, read_run, run_input, text_of
from tests.servers import Server
from tests.sse import Frame

ROUTES = pytest.mark.parametrize("route", ["talk/", "agent/", "plain/"])


def asked(frames: list[Frame]) -> dict[str, Any]:
    """Return the one interrupt that a stream ends with."""
    assert frames[-1].event is not None
    (interrupt,) = frames[-1].event["outcome"]["interrupts"]
    found: dict[str, Any] = interrupt
    return found


def answer(interrupt: dict[str, Any], *, approved: bool, thread_id: str) -> dict[str, Any]:
    payload = {"approved": approved}
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
    return run_input(fresh("run"), thread_id=thread_id, resume=[entry])


def answered(visitor: Visitor, server: Server, body: dict[str, Any], *, route: str) -> tuple[str, str]:
    """Post an answer; return the id of the run that has it and what came last, or the code of the refusal."""
    with visitor.send(server, body, route=route) as response:
        if response.status != 200:
            return "", response.json()["code"]
        frames = read_run(response)
    events = [frame.event for frame in frames if frame.event is not None]
    return events[0]["runId"], events[-1]["type"]


@ROUTES
def test_C17_two_people_decide_at_once_in_two_processes_and_the_tool_runs_at_most_once(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, route: str
):
    thread_id, note = fresh("thread"), fresh("note")
    text = script([call("sign", text=note)], ["done"])
    interrupt = asked(visitor.run(uvicorn, fresh("run"), text, thread_id=thread_id, route=route))
    bodies = [answer(interrupt, approved=index % 4 < 3, thread_id=thread_id) for index in range(8)]
    posts: list[Callable[[], tuple[str, str]]] = [
        partial(answered, visitor, [uvicorn, daphne][index % 2], body, route=route) for index, body in enumerate(bodies)
    ]
    found = at_once(posts)
    row = Interrupt.objects.get(interrupt_id=interrupt["id"])
    winner = Run.objects.get(pk=row.decided_by_run)
    was_approved = row.decision == "approved"
    for index, outcome in enumerate(found):
        won = (index % 4 < 3) == was_approved
        assert outcome == ((winner.run_id, "RUN_FINISHED") if won else ("", "already_decided"))
    assert gates.count(note) == int(was_approved)
    assert Run.objects.filter(owner=visitor.owner.key).count() == 2
    for server in (uvicorn, daphne):
        body = answer(interrupt, approved=was_approved, thread_id=thread_id)
        assert answered(visitor, server, body, route=route) == (winner.run_id, "RUN_FINISHED")
    assert gates.count(note) == int(was_approved)


@ROUTES
def test_C17_an_answer_after_a_restart_runs_the_tool_with_the_stored_arguments(
    start: Start, uvicorn: Server, visitor: Visitor, gates: Gatekeeper, route: str
):
    thread_id, note = fresh("thread"), fresh("note")
    text = script([call("sign", text=note)], ["done"])
    with start("uvicorn") as server:
        interrupt = asked(visitor.run(server, fresh("run"), text, thread_id=thread_id, route=route))
        server.kill()
    body = answer(interrupt, approved=True, thread_id=thread_id)
    assert gates.count(note) == 0
    assert text_of(visitor.read(uvicorn, body, route=route)) == "done"
    assert gates.count(note) == 1
    assert visitor.user is not None
    assert [saved.text for saved in visitor.user.notes.all()] == [note]


@pytest.mark.parametrize("decision", ["answer", "cancel", "expiry"])
def test_a_queued_turn_waits_for_what_the_one_ahead_asks(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, decision: str
):
    thread_id, note, held, later = fresh("thread"), fresh("note"), fresh("held"), fresh("later")
    first, second = fresh("run"), fresh("run")
    asking = script([gate(held), call("sign", text=note)], ["first"])
    with visitor.post(uvicorn, first, asking, thread_id=thread_id, route="talk/") as response:
        gates.wait_reached(held)
        queued = script([call("write", text=later)], ["second"])
        with visitor.post(daphne, second, queued, thread_id=thread_id, route="talk/") as waiting:
            waiting.until("RUN_STARTED")
            gates.open(held)
            interrupt = asked(read_run(response))
            assert (visitor.row(second).status, gates.count(later)) == ("queued", 0)
            if decision == "answer":
                body = answer(interrupt, approved=True, thread_id=thread_id)
                assert text_of(visitor.read(daphne, body, route="talk/")) == "first"
            elif decision == "cancel":
                status, _ = visitor.answer(daphne, {}, route=f"talk/runs/{first}/cancel/")
                assert status == 200
            else:
                Interrupt.objects.filter(interrupt_id=interrupt["id"]).update(expires_at=0)
            assert text_of(list(waiting.frames())) == "second"
    assert gates.count(note) == int(decision == "answer")
    row = Interrupt.objects.get(interrupt_id=interrupt["id"])
    assert row.decision == {"answer": "approved", "cancel": "cancelled", "expiry": "expired"}[decision]
    _, thread = visitor.get(uvicorn, f"talk/threads/{thread_id}/")
    said = [message["content"] for message in thread["messages"] if message["role"] == "assistant"]
    assert [text for text in said if text] == (["first", "second"] if decision == "answer" else ["second"])
    assert thread["interrupts"] == []
