"""What comes back of an interrupt when a page is loaded again."""

from typing import Any

from django.test import Client

from tests.api.posting import events
from tests.approvals.client import Asker, approve


def connected(talk: Asker) -> dict[str, Any]:
    """Return the terminal event that a page gets that connects to the thread."""
    body = {"threadId": talk.thread_id, "runId": "connect", "messages": [], "protocolVersion": "1.0"}
    return events(talk.client.post(f"{talk.url}connect/", body, content_type="application/json"))[-1]


def listed(talk: Asker) -> dict[str, int]:
    runs = talk.client.get(f"{talk.mount}runs/").json()["runs"]
    return {run["run_id"]: run["pending_interrupts"] for run in runs}


def test_an_open_interrupt_comes_back_everywhere(talk: Asker):
    (interrupt,) = talk.ask("erase 7", run_id="r1")
    assert talk.stored()["interrupts"] == talk.run("r1")["interrupts"] == [interrupt]
    assert connected(talk)["outcome"] == {"type": "interrupt", "interrupts": [interrupt]}
    assert listed(talk) == {"r1": 1}


def test_C17_an_answered_interrupt_comes_back_nowhere(talk: Asker):
    (interrupt,) = talk.ask("erase 7", run_id="r1")
    talk.answer(approve(interrupt), run_id="r2")
    assert talk.stored()["interrupts"] == talk.run("r1")["interrupts"] == []
    assert (connected(talk)["runId"], connected(talk)["outcome"]) == ("r2", {"type": "success"})
    assert listed(talk) == {"r2": 0, "r1": 0}


def test_C17_a_cancelled_interrupt_comes_back_nowhere(talk: Asker, client: Client):
    talk.ask("erase 7", run_id="r1")
    etag = client.get(talk.url)["ETag"]
    client.post("/talk/runs/r1/cancel/")
    assert talk.stored()["interrupts"] == talk.run("r1")["interrupts"] == []
    assert client.get(talk.url)["ETag"] != etag
    assert connected(talk)["outcome"] == {"type": "cancelled"}
    (last,) = events(client.get("/talk/runs/r1/events/?protocol=1.0&from=snapshot"))[-1:]
    assert last["outcome"] == {"type": "cancelled"}
