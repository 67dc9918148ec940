"""What becomes of a run when its last viewer leaves, wherever its viewers are."""

import pytest

from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, script
from tests.live.visitors import Visitor, check_complete, fresh, run_input, text_of, types_of
from tests.servers import Server, each
from tests.sse import Response, is_detached

# As short as leases can be on a busy machine; a viewer of another process counts for as long.
QUICK = {"BEAT_SECONDS": 0.25, "LEASE_SECONDS": 2.0, "POLL_SECONDS": 0.05}


def watched(response: Response, gates: Gatekeeper, held: str) -> Response:
    """Return the response once its viewer is there and the tool waits."""
    response.until("TOOL_CALL_END")
    gates.wait_reached(held)
    return response


def check_cancelled(visitor: Visitor, server: Server, body: dict[str, object], *, route: str) -> None:
    """Check that a run ends as cancelled, and that its log ends in order."""
    row = visitor.ended(str(body["runId"]))
    assert row.status == "cancelled"
    frames = visitor.log(server, str(body["runId"]), mount=route)
    assert types_of(frames)[-1] == "RUN_FINISHED"
    assert frames[-1].event is not None
    assert frames[-1].event["outcome"] == {"type": "cancelled"}


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("kind", each(["uvicorn", "daphne"]))
def test_cancel_stops_the_run_when_its_last_viewer_leaves(
    request: pytest.FixtureRequest, visitor: Visitor, gates: Gatekeeper, kind: str, reset: bool
):
    server = request.getfixturevalue(kind)
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    with watched(visitor.send(server, body, route="strict/"), gates, held) as first:
        with visitor.follow(server, body["runId"], mount="strict/") as second:
            second.until("TOOL_CALL_END")
            first.close(reset=reset)
            # Another run, which nobody watches any more, is stopped meanwhile.
            other = run_input(fresh("run"), script([call("hold", gate=held)]))
            with watched(visitor.send(server, other, route="strict/"), gates, held) as left:
                left.close()
            check_cancelled(visitor, server, other, route="strict/")
            assert visitor.row(body["runId"]).status == "running"
            second.close(reset=reset)
        check_cancelled(visitor, server, body, route="strict/")
    gates.open(held)


def test_CancelAfter_lets_a_viewer_come_back(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    held, lost = fresh("held"), fresh("lost")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    other = run_input(fresh("run"), script([call("hold", gate=lost)]))
    watched(visitor.send(uvicorn, body, route="patient/"), gates, held).close()
    watched(visitor.send(uvicorn, other, route="patient/"), gates, lost).close()
    with visitor.follow(uvicorn, body["runId"], mount="patient/") as back:
        back.until("TOOL_CALL_END")
        # Nobody has come back to this one, and it was left later.
        check_cancelled(visitor, uvicorn, other, route="patient/")
        gates.open(held)
        assert text_of(back.until("RUN_FINISHED")) == "done"
    assert visitor.ended(body["runId"]).status == "finished"


@pytest.mark.parametrize("end", ["leaves", "dies"])
def test_a_viewer_in_another_process_keeps_the_run_until_it_leaves_or_its_process_dies(
    start: Start, visitor: Visitor, gates: Gatekeeper, end: str
):
    held, lost = fresh("held"), fresh("lost")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    other = run_input(fresh("run"), script([call("hold", gate=lost)]))
    with start("uvicorn", engine=QUICK) as executing, start("uvicorn", engine=QUICK) as watching:
        near = [
            watched(visitor.send(executing, body, route="strict/"), gates, held),
            watched(visitor.send(executing, other, route="strict/"), gates, lost),
        ]
        with (
            visitor.follow(watching, body["runId"], mount="strict/") as far,
            visitor.follow(watching, other["runId"], mount="strict/") as gone,
        ):
            far.until("TOOL_CALL_END")
            gone.until("TOOL_CALL_END")
            for response in near:
                response.close()
            gone.close()
            check_cancelled(visitor, executing, other, route="strict/")
            assert visitor.row(body["runId"]).status == "running"
            if end == "dies":
                watching.kill()
            else:
                far.close()
        check_cancelled(visitor, executing, body, route="strict/")
    gates.open(held)
    gates.open(lost)


def test_a_viewer_that_was_sent_away_has_not_left(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    held, lost = fresh("held"), fresh("lost")
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]))
    other = run_input(fresh("run"), script([call("hold", gate=lost)]))
    with visitor.send(uvicorn, body, route="brief/") as response:
        cut = list(response.frames())
    assert is_detached(cut[-1].event)
    watched(visitor.send(uvicorn, other, route="strict/"), gates, lost).close()
    check_cancelled(visitor, uvicorn, other, route="strict/")
    cursor = {"Last-Event-ID": str(cut[-2].id)}
    with visitor.follow(uvicorn, body["runId"], mount="brief/", headers=cursor) as response:
        gates.open(held)
        assert text_of(response.until("RUN_FINISHED")) == "done"
    gates.open(lost)


def test_a_viewer_that_was_sent_away_and_stays_away_has_left(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    held = fresh("held")
    body = run_input(fresh("run"), script([call("hold", gate=held)]))
    with visitor.send(uvicorn, body, route="brief/") as response:
        assert is_detached(list(response.frames())[-1].event)
    check_cancelled(visitor, uvicorn, body, route="brief/")
    gates.open(held)


@pytest.mark.parametrize(
    ("route", "wish", "status"),
    [
        ("asked/", "cancel", "cancelled"),
        ("agent/", "cancel", "finished"),
        ("asked/", "complete_and_save", "finished"),
        ("asked/", ["cancel"], "finished"),
        ("strict/", "complete_and_save", "cancelled"),
    ],
)
def test_a_post_chooses_among_what_the_mount_lists(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper, route: str, wish: object, status: str
):
    held, lost = fresh("held"), fresh("lost")
    props = {"onClientDisconnect": wish}
    body = run_input(fresh("run"), script([call("hold", gate=held)], ["done"]), forwardedProps=props)
    other = run_input(fresh("run"), script([call("hold", gate=lost)]))
    watched(visitor.send(uvicorn, body, route=route), gates, held).close()
    watched(visitor.send(uvicorn, other, route="strict/"), gates, lost).close()
    check_cancelled(visitor, uvicorn, other, route="strict/")
    gates.open(held)
    assert visitor.ended(body["runId"]).status == status
    gates.open(lost)


def test_a_run_that_ends_while_nobody_watches_is_not_cancelled(uvicorn: Server, visitor: Visitor):
    run_id = fresh("run")
    frames = visitor.run(uvicorn, run_id, script(["done"]), route="strict/")
    check_complete(visitor, run_id, frames)
