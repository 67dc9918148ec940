"""A viewer that leaves changes nothing for the run, and leaves nothing behind."""

import time

import pytest

from tests.live.connections import ENGINE_CONNECTIONS, held_connections
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, script
from tests.live.visitors import Visitor, check_complete, eventually, fresh, run_input, text_of
from tests.servers import Server
from tests.sse import request

# Four times POLL_SECONDS of the watcher.
SILENT_SECONDS = 1.0


def tasks(server: Server) -> dict[str, int]:
    """Return how many asyncio tasks the server has: "all" of them, and those of "django"."""
    with request("GET", f"{server.url}/tasks/") as response:
        found: dict[str, int] = response.json()
    return found


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
def test_a_disconnect_in_the_middle_of_a_slow_tool_leaves_the_run_to_finish(
    server: Server, visitor: Visitor, gates: Gatekeeper, reset: bool
):
    run_id, held, note = fresh("run"), fresh("held"), fresh("note")
    body = run_input(run_id, script([call("hold", gate=held)], [call("write", text=note)], ["done"]))
    before = tasks(server)["django"]
    with visitor.send(server, body) as response:
        response.until("TOOL_CALL_END")
        gates.wait_reached(held)
        response.close(reset=reset)
    # Under ASGI, the server notices at once.
    eventually(lambda: tasks(server)["django"] <= before)
    assert visitor.row(run_id).status == "running"
    gates.open(held)
    assert visitor.ended(run_id).status == "finished"
    frames = visitor.log(server, run_id)
    assert text_of(frames) == "done"
    check_complete(visitor, run_id, frames)
    assert visitor.user is not None
    assert (gates.count(held), gates.count(note), visitor.user.notes.count()) == (1, 1, 1)


@pytest.mark.parametrize("follower", ["uvicorn", "daphne"])
def test_C05_nothing_is_asked_and_no_connection_held_for_a_viewer_that_has_left(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, follower: str
):
    run_id, held = fresh("run"), fresh("held")
    starter, other = (daphne, uvicorn) if follower == "uvicorn" else (uvicorn, daphne)
    body = run_input(run_id, script([call("hold", gate=held)], ["done"]))

    def statements() -> int:
        number: int = visitor.get(other, "probe/")[1]["statements"]
        return number

    def is_silent() -> bool:
        before = statements()
        time.sleep(SILENT_SECONDS)
        return statements() == before

    with visitor.send(starter, body) as first:
        first.until("TOOL_CALL_END")
        before = tasks(other)["all"]
        with visitor.follow(other, run_id) as quiet, visitor.follow(other, run_id, mount="chatty/") as chatty:
            quiet.until("TOOL_CALL_END")
            chatty.until("TOOL_CALL_END")
            asked = statements()
            eventually(lambda: statements() > asked)
            assert next(chatty.frames()).comment
            quiet.close(reset=True)
            chatty.close()
        eventually(is_silent)
        eventually(lambda: tasks(other)["all"] <= before)
        eventually(lambda: held_connections() <= ENGINE_CONNECTIONS)
        gates.open(held)
        frames = first.until("RUN_FINISHED")
    assert text_of(frames) == "done"
    assert visitor.ended(run_id).status == "finished"
    assert gates.count(held) == 1
