import json
import socket
from collections.abc import Iterator

import pytest

from tests.servers import free_port
from tests.stock_client import CLIENT_VERSIONS, run_agent, start_agent

pytestmark = [pytest.mark.node, pytest.mark.parametrize("version", CLIENT_VERSIONS)]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STARTED = {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"}
TEXT = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
WORD = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hel"}


class Listener:
    """A server whose every byte the test sends itself."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/agent/"

    def accept(self) -> tuple[socket.socket, bytes]:
        """Take one request; return its connection and its bytes."""
        connection, _ = self.listener.accept()
        connection.settimeout(30)
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            received += connection.recv(65536)
        return connection, received


@pytest.fixture
def server() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        yield Listener(listener)


def chunk(*events: dict[str, object]) -> bytes:
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def test_headers_and_body_reach_the_server(server, version):
    client = start_agent(
        server.url,
        messages=["hello"],
        headers={"Cookie": "sessionid=1; csrftoken=2", "X-CSRFToken": "2"},
        thread_id="thread-1",
        client_version=version,
        runId="run-1",
        state={"k": 1},
        forwardedProps={"f": 2},
        tools=[{"name": "n", "description": "d", "parameters": {}}],
    )
    connection, received = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED, {**STARTED, "type": "RUN_FINISHED"}) + END)
        answer = client.result()
    head, _, body = received.partition(b"\r\n\r\n")
    assert {b"cookie: sessionid=1; csrftoken=2", b"x-csrftoken: 2"} <= set(head.lower().split(b"\r\n"))
    posted = json.loads(body)
    assert (posted["threadId"], posted["runId"], posted["state"]) == ("thread-1", "run-1", {"k": 1})
    assert (posted["forwardedProps"], posted["tools"][0]["name"]) == ({"f": 2}, "n")
    assert [message["content"] for message in posted["messages"]] == ["hello"]
    assert (answer["ok"], answer["state"]) == (True, {"k": 1})


def test_a_connection_that_is_cut_is_an_error(server, version):
    client = start_agent(server.url, messages=["hello"], client_version=version)
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED, TEXT, WORD))
    answer = client.result()
    assert answer["ok"] is False
    assert answer["error"]["source"] in ("run", "unhandledRejection")
    assert answer["error"]["code"] == "UND_ERR_SOCKET"
    assert [event["type"] for event in answer["events"]] == [STARTED["type"], TEXT["type"], WORD["type"]]
    assert answer["messages"][-1]["content"] == "Hel"


def test_a_stream_that_ends_without_a_terminal_event_is_not_ok(server, version):
    client = start_agent(server.url, messages=["hello"], client_version=version)
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED) + END)
        answer = client.result()
    assert (answer["ok"], answer["error"], answer["results"][0]["terminal"]) == (False, None, None)


def test_a_stream_that_breaks_the_protocol_is_an_error(server, version):
    client = start_agent(server.url, messages=["hello"], client_version=version)
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED, WORD) + END)
        answer = client.result()
    assert answer["ok"] is False
    assert "TEXT_MESSAGE_CONTENT" in answer["error"]["message"]


def test_a_status_of_http_is_an_error_and_the_next_run_goes_on(server, version):
    client = start_agent(server.url, runs=[{"messages": ["a"]}, {"messages": ["b"]}], client_version=version)
    connection, _ = server.accept()
    with connection:
        body = b'{"error": "no", "code": "refused"}'
        connection.sendall(
            b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED, {**STARTED, "type": "RUN_FINISHED"}) + END)
        answer = client.result()
    refused, finished = answer["results"]
    assert (refused["error"]["status"], refused["error"]["payload"]["code"]) == (409, "refused")
    assert answer["error"] == refused["error"]
    assert (answer["ok"], finished["terminal"], finished["error"]) == (False, "RUN_FINISHED", None)


def test_silence_ends_in_a_timeout(server, version):
    client = start_agent(server.url, messages=["hello"], client_version=version, timeout=2)
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED))
        answer = client.result()
    assert (answer["ok"], answer["error"]["source"]) == (False, "timeout")
    assert [event["type"] for event in answer["events"]] == ["RUN_STARTED"]


def test_a_server_that_is_not_there_is_an_error(version):
    answer = run_agent(f"http://127.0.0.1:{free_port()}/", messages=["hello"], client_version=version)
    assert (answer["ok"], answer["error"]["code"]) == (False, "ECONNREFUSED")


def test_the_stop_button_closes_the_connection(server, version):
    client = start_agent(server.url, messages=["hello"], client_version=version, abortOn="TEXT_MESSAGE_CONTENT")
    connection, _ = server.accept()
    with connection:
        connection.sendall(HEAD + chunk(STARTED, TEXT, WORD))
        assert connection.recv(1) == b""
        answer = client.result()
    assert answer["ok"] is False
    assert answer["messages"][-1]["content"] == "Hel"


def test_a_request_that_makes_no_sense_is_an_error(version):
    answer = run_agent("http://127.0.0.1/", client_version=f"{version}-beta")
    assert answer["ok"] is False
    assert "clientVersion" in answer["error"]["message"]
