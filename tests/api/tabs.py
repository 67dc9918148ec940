"""A browser tab that talks in a thread: it keeps the transcript that the events add up to, and posts it each time."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from django.test import Client

from django_pydantic_agent.log.projection import Projection
from tests.api.posting import Message, events, post, run_input, user_message
from tests.sse import check_sequence

_numbers = count(1)


def fresh(prefix: str) -> str:
    return f"{prefix}{next(_numbers)}"


class Tab:
    """One client of one thread; `messages` is what it shows."""

    def __init__(self, client: Client, mount: str = "/talk/", thread_id: str = "t1") -> None:
        self.client = client
        self.mount = mount
        self.thread_id = thread_id
        self.messages: list[Message] = []
        self.state: Any = {}

    def say(self, text: str, **fields: Any) -> list[dict[str, Any]]:
        """Add a user message and take in the answer."""
        self.messages.append(user_message(text, fresh("u")))
        return self.take(self.send(**fields))

    def send(self, messages: Sequence[Message] | None = None, **fields: Any) -> Any:
        """Post the transcript, or `messages` in its place, under a new run id; return the response."""
        headers = fields.pop("headers", None)
        run_id = fields.pop("run_id", None) or fresh("run-")
        url = fields.pop("url", self.mount)
        posted = self.messages if messages is None else messages
        fields = {"protocolVersion": "1.0"} | fields
        return post(self.client, url, run_id, posted, thread_id=self.thread_id, headers=headers, **fields)

    def take(self, response: Any) -> list[dict[str, Any]]:
        """Read a stream to its end and do what its events say."""
        found = events(response)
        check_sequence(found, known_calls=_calls(self.messages))
        self.apply(found)
        return found

    def apply(self, found: Sequence[dict[str, Any]]) -> None:
        projection = Projection(self.messages, state=self.state)
        for event in found:
            projection.apply_frame(json.dumps(event).encode())
        self.messages, self.state = projection.messages, projection.state

    def copy(self) -> "Tab":
        """Return another tab that knows what this one knows."""
        other = Tab(self.client, self.mount, self.thread_id)
        other.messages, other.state = list(self.messages), self.state
        return other

    @property
    def url(self) -> str:
        return f"{self.mount}threads/{self.thread_id}/"

    def stored(self, query: str = "") -> dict[str, Any]:
        """Return the thread as the server shows it."""
        response = self.client.get(self.url + query)
        assert response.status_code == 200, response.content
        thread: dict[str, Any] = response.json()
        return thread

    def body(self, run_id: str) -> dict[str, Any]:
        return run_input(run_id, self.messages, thread_id=self.thread_id)


def said(messages: Sequence[Message]) -> list[str]:
    """Return the texts of user and assistant messages, in order."""
    return [str(message["content"]) for message in messages if message["role"] != "tool" and message.get("content")]


def _calls(messages: Sequence[Message]) -> set[str]:
    return {call["id"] for message in messages for call in message.get("toolCalls") or ()}
