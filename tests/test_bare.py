from collections.abc import Iterator

import pytest

from tests.bare import CITIES, run_input
from tests.servers import ASGI_KINDS, Server, serve
from tests.sse import check_sequence, events_of, request
from tests.stock_client import CLIENT_VERSIONS, run_agent

BARE = "tests.bare:application"


@pytest.fixture(scope="module")
def bare() -> Iterator[Server]:
    with serve("uvicorn", application=BARE) as server:
        yield server


@pytest.mark.parametrize("kind", ASGI_KINDS)
def test_the_bare_program_streams_one_legal_run_on_every_asgi_server(kind):
    with (
        serve(kind, application=BARE) as server,
        request("POST", f"{server.url}/", json_body=run_input("go")) as response,
    ):
        events = events_of(list(response.frames()))
    assert response.headers["content-type"].startswith("text/event-stream")
    assert check_sequence(events)["type"] == "RUN_FINISHED"
    kinds = [event["type"] for event in events]
    assert kinds.index("REASONING_END") < kinds.index("TOOL_CALL_START") < kinds.index("TOOL_CALL_RESULT")
    assert kinds.count("REASONING_MESSAGE_CONTENT") == 4
    assert kinds.count("TOOL_CALL_RESULT") == 2


def test_an_error_of_the_model_is_an_event(bare):
    with request("POST", f"{bare.url}/", json_body=run_input("fail")) as response:
        events = events_of(list(response.frames()))
    assert check_sequence(events, closed_on_error=False)["message"] == "the model gave up"


def check_turn(messages: list[dict[str, object]], turn: int) -> None:
    user, reasoning, calls, first, second, answer = messages
    assert user["role"] == "user"
    assert (reasoning["role"], reasoning["content"]) == ("reasoning", "Two cities, two calls.")
    assert [call["function"]["arguments"] for call in calls["toolCalls"]] == [f'{{"city":"{city}"}}' for city in CITIES]
    results = {message["toolCallId"]: message["content"] for message in (first, second)}
    assert results == {
        call["id"]: f"4 degrees in {city}" for call, city in zip(calls["toolCalls"], CITIES, strict=True)
    }
    assert (answer["role"], answer["content"]) == (
        "assistant",
        f"It is 4 degrees in Oslo. It is 4 degrees in Rome. Turn {turn}.",
    )


@pytest.mark.node
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_the_stock_client_runs_text_reasoning_and_parallel_tools_twice(bare, version):
    answer = run_agent(f"{bare.url}/", runs=[{"messages": ["one"]}, {"messages": ["two"]}], client_version=version)
    assert (answer["ok"], answer["error"], answer["warnings"]) == (True, None, [])
    check_turn(answer["messages"][:6], 1)
    check_turn(answer["messages"][6:], 2)
    first, second = answer["results"]
    assert first["events"] + second["events"] == answer["events"]
    for result in (first, second):
        assert check_sequence(result["events"])["runId"] == result["runId"]
    assert answer["messages"][1:6] == first["newMessages"]


@pytest.mark.node
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_the_stock_client_reports_an_error_of_the_run_and_goes_on(bare, version):
    runs = [{"messages": ["fail"], "runId": "run-1"}, {"messages": ["go"]}]
    answer = run_agent(f"{bare.url}/", runs=runs, client_version=version)
    failed, went_on = answer["results"]
    assert (answer["ok"], answer["error"]) == (False, None)
    assert (failed["runId"], failed["terminal"], failed["error"]) == ("run-1", "RUN_ERROR", None)
    assert failed["events"][-1]["message"] == "the model gave up"
    assert went_on["terminal"] == "RUN_FINISHED"
