"""Posting a run and reading what comes back, with Django's own clients."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.http import HttpResponseBase

from tests.sse import Frame, FrameSplitter, parse_frame

Message = dict[str, Any]


def user_message(text: str, message_id: str = "u1") -> Message:
    return {"id": message_id, "role": "user", "content": text}


def run_input(
    run_id: str = "r1", messages: str | Sequence[Message] = "hello", *, thread_id: str = "t1", **fields: Any
) -> dict[str, Any]:
    """Return a `RunAgentInput`; a text stands for one user message."""
    if isinstance(messages, str):
        messages = [user_message(messages)]
    return {"threadId": thread_id, "runId": run_id, "messages": list(messages), **fields}


def post(client: Any, url: str, *args: Any, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    """Post the `RunAgentInput` that `run_input` makes of the other arguments."""
    return client.post(url, run_input(*args, **fields), content_type="application/json", headers=headers)


def chunks(response: HttpResponseBase) -> Iterator[bytes]:
    assert response.streaming, response.content
    return iter(response)


def frames(response: HttpResponseBase) -> list[Frame]:
    """Read a stream to its end."""
    return parse(b"".join(chunks(response)))


def parse(body: bytes) -> list[Frame]:
    splitter = FrameSplitter()
    found = [parse_frame(raw) for raw in splitter.feed(body)]
    assert splitter.rest == b""
    return found


def events(response: HttpResponseBase) -> list[dict[str, Any]]:
    return [frame.event for frame in frames(response) if frame.event is not None]


def text_of(found: Sequence[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in found if event["type"] == "TEXT_MESSAGE_CONTENT")


def error(response: Any) -> tuple[int, str]:
    """Return status and code of a JSON error, which has nothing but the keys of the contract."""
    assert response["Content-Type"] == "application/json"
    body = json.loads(response.content)
    assert {type(body.pop("error")), type(body["code"])} == {str}
    return response.status_code, body["code"]


def run_links(mount: str, run_id: str = "r1") -> dict[str, str]:
    """Return the links of a run that cannot be continued."""
    url = f"{mount}runs/{run_id}/"
    return {"self": url, "events": f"{url}events/", "cancel": f"{url}cancel/"}
