"""resumable-fetch.js under the stock client, at a real server, behind a proxy that cuts connections."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.gates import Gatekeeper
from tests.live.proxy import CuttingProxy
from tests.live.scripts import Step, call, gate, script, spell, think
from tests.live.visitors import Visitor, eventually, fresh, run_input
from tests.servers import Server
from tests.stock_client import CLIENT_VERSIONS, run_agent, run_script, start_agent

# What a client makes of the wire is the same on every database.
pytestmark = [pytest.mark.node, pytest.mark.sqlite]
with_each_client = pytest.mark.parametrize("version", CLIENT_VERSIONS)

QUICKLY = {"tries": 3, "delay": 1}
TEXT = "Größe 🙂\u2028" * 5


@pytest.fixture
def proxy(uvicorn: Server) -> Iterator[CuttingProxy]:
    with contextlib.closing(CuttingProxy(uvicorn)) as proxy:
        yield proxy


def options(visitor: Visitor, version: str, *turns: list[Step], **more: Any) -> dict[str, Any]:
    return {
        "headers": visitor.headers,
        "thread_id": fresh("thread"),
        "messages": [script(*turns)],
        "client_version": version,
        "resumable": QUICKLY,
        **more,
    }


def said(answer: Any) -> Any:
    return answer["messages"][-1]["content"]


@with_each_client
def test_a_stream_that_is_cut_again_and_again_arrives_whole(
    proxy: CuttingProxy, visitor: Visitor, gates: Gatekeeper, version: str
):
    proxy.limit = 2500
    run = fresh("run")
    turns = [[think("Well."), call("tally", run=run), call("quick", word="one")], [spell(TEXT)]]
    answer = run_agent(f"{proxy.url}/talk/", **options(visitor, version, *turns))
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    assert (said(answer), answer["state"]) == (TEXT, {"run": run, "steps": ["tallied"]})
    assert proxy.connections > 3
    assert gates.count(run) == 1


@with_each_client
def test_without_it_the_client_ends_with_less(proxy: CuttingProxy, visitor: Visitor, version: str):
    proxy.limit = 2500
    answer = run_agent(f"{proxy.url}/talk/", **options(visitor, version, [spell(TEXT)], resumable=None))
    assert not answer["ok"]
    assert said(answer) != TEXT


@with_each_client
def test_frames_that_arrive_byte_by_byte_are_whole_frames(uvicorn: Server, visitor: Visitor, version: str):
    answer = run_agent(f"{uvicorn.url}/talk/", **options(visitor, version, [spell(TEXT)]))
    assert (answer["ok"], answer["error"], said(answer)) == (True, None, TEXT)


@with_each_client
def test_a_viewer_that_is_sent_away_comes_back_until_the_run_ends(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper, version: str
):
    held, posts = fresh("held"), uvicorn.log().count("POST /brief/")
    turn = ["so far ", gate(held), "and on"]
    client = start_agent(f"{uvicorn.url}/brief/", **options(visitor, version, turn))
    eventually(lambda: uvicorn.log().count("POST /brief/") >= posts + 3)
    gates.open(held)
    answer = client.result()
    assert (answer["ok"], answer["error"], said(answer)) == (True, None, "so far and on")


@with_each_client
@pytest.mark.parametrize("cause", ["unreachable", "refused"])
def test_it_gives_up_where_nothing_new_comes_or_will_come(
    proxy: CuttingProxy, visitor: Visitor, gates: Gatekeeper, version: str, cause: str
):
    held = fresh("held")
    client = start_agent(f"{proxy.url}/talk/", **options(visitor, version, ["so far ", gate(held)]))
    gates.wait_reached(held)
    if cause == "unreachable":
        proxy.close()
        wanted = "The stream was cut, and 3 requests in a row brought nothing new."
    else:
        assert visitor.user is not None
        visitor.user.is_active = False
        visitor.user.save()
        proxy.cut()
        wanted = "The stream cannot be resumed: 403"
    answer = client.result()
    gates.open(held)
    assert (answer["error"]["source"], answer["error"]["message"]) == ("run", wanted)


@with_each_client
@pytest.mark.parametrize("is_shown", [True, False], ids=["shown the thread", "not shown it"])
def test_what_a_client_leaves_out_is_meant_once_it_was_shown_the_thread(
    uvicorn: Server, visitor: Visitor, version: str, is_shown: bool
):
    thread_id = fresh("thread")
    turns = [{"messages": [script([word])]} for word in ("one", "two", "three")]
    if is_shown:
        first = run_input(fresh("run"), script(["zero"]), thread_id=thread_id)
        visitor.read(uvicorn, first, route="talk/")
    edited = {"messages": [script(["edited"])], "keep": 2}
    given = options(visitor, version, thread_id=thread_id, messages=[], runs=[*turns, edited])
    answer = run_agent(f"{uvicorn.url}/talk/", **given)
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    thread = visitor.get(uvicorn, f"talk/threads/{thread_id}/?superseded=1")[1]
    spoken = [message["content"] for message in thread["messages"] if message["role"] == "assistant"]
    assert spoken == (["zero", "edited"] if is_shown else ["one", "two", "three", "edited"])
    assert len(thread["superseded"]) == is_shown


@pytest.mark.parametrize("way", ["signal", "reader"])
def test_who_stops_reading_does_not_wait_for_the_next_try(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper, way: str
):
    held = fresh("held")
    body = run_input(fresh("run"), script([think("Well."), gate(held)]))
    job = {"url": f"{uvicorn.url}/talk/", "headers": visitor.headers, "body": body, "way": way}
    answer = run_script("stopped_fetch.mjs", job)
    gates.open(held)
    assert answer == {"ended": "AbortError" if way == "signal" else "done"}
