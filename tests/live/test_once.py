"""A run id executes once, however often, wherever and however closely together it is posted."""

from functools import partial

import pytest

from django_pydantic_agent.contrib.store.models import Run
from tests.attached import check_attached
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, gate, script
from tests.live.visitors import Visitor, at_once, check_complete, fresh, lines_of, run_input, text_of
from tests.servers import Server


@pytest.mark.parametrize("processes", [1, 2])
def test_C22_ten_simultaneous_posts_of_one_run_execute_once(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, processes: int
):
    run_id, note = fresh("run"), fresh("note")
    body = run_input(run_id, script([call("write", text=note)], ["a ", "b ", "c"]))
    servers = [uvicorn, daphne][:processes]
    answers = at_once([partial(visitor.read, servers[index % processes], body) for index in range(10)])
    whole = visitor.log(servers[0], run_id)
    check_complete(visitor, run_id, whole)
    assert text_of(whole) == "a b c"
    for frames in answers:
        check_attached(frames, whole)
    assert sum(frames[0].id is not None for frames in answers) == 1
    assert visitor.user is not None
    assert (gates.count(note), visitor.user.notes.count()) == (1, 1)
    assert Run.objects.filter(owner=visitor.owner.key).count() == 1
    for server in servers:
        check_attached(visitor.read(server, body), whole)
        assert lines_of(visitor.log(server, run_id)) == lines_of(whole)
    assert gates.count(note) == 1


@pytest.mark.parametrize("follower", ["uvicorn", "daphne"])
def test_a_follower_in_another_process_gets_the_log_from_its_start_and_then_what_comes(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, follower: str
):
    run_id, first, second = fresh("run"), fresh("first"), fresh("second")
    starter, other = (daphne, uvicorn) if follower == "uvicorn" else (uvicorn, daphne)
    body = run_input(run_id, script([call("quick", word="a")], ["said ", gate(first), "live ", gate(second), "last"]))
    with visitor.send(starter, body) as response:
        frames = response.until("TEXT_MESSAGE_CONTENT")
        with visitor.follow(other, run_id) as attached:
            seen = attached.until("TEXT_MESSAGE_CONTENT")
            assert lines_of(seen) == lines_of(frames)
            gates.open(first)
            seen += attached.until("TEXT_MESSAGE_CONTENT")
            assert text_of(seen) == "said live "
            gates.open(second)
            seen += attached.frames()
        frames += response.frames()
    check_complete(visitor, run_id, frames)
    check_complete(visitor, run_id, seen)
    assert (gates.count(first), gates.count(second)) == (1, 1)


def test_C22_other_posts_neither_join_nor_disturb_a_run_that_goes_on(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper
):
    run_id, again, held, note = fresh("run"), fresh("run"), fresh("held"), fresh("note")
    said = script([gate(held), call("write", text=note)], ["done"])
    message = {"id": "u1", "role": "user", "content": said}
    with visitor.post(uvicorn, run_id, message) as response:
        frames = response.until("RUN_STARTED")
        gates.wait_reached(held)
        # Another body under the same run id, and the same message under another run id.
        status, refusal = visitor.answer(uvicorn, run_input(run_id, message, state={"other": 1}))
        assert (status, refusal["code"]) == (409, "run_id_reused")
        with visitor.post(uvicorn, again, message) as second:
            others = second.until("RUN_STARTED")
            gates.wait_reached(held, 2)
            gates.open(held)
            others += second.frames()
        frames += response.frames()
    check_complete(visitor, run_id, frames)
    check_complete(visitor, again, others)
    assert gates.count(note) == 2
    assert Run.objects.filter(owner=visitor.owner.key).count() == 2


def test_C22_posts_that_are_dropped_at_once_start_nothing_more(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, held, note = fresh("run"), fresh("held"), fresh("note")
    body = run_input(run_id, script([gate(held), call("write", text=note)], ["done"]))
    with visitor.send(uvicorn, body) as response:
        gates.wait_reached(held)
        for _ in range(5):
            visitor.send(uvicorn, body).close(reset=True)
        gates.open(held)
        frames = list(response.frames())
    check_complete(visitor, run_id, frames)
    assert (gates.count(held), gates.count(note)) == (1, 1)
