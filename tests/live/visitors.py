"""Users of the served project: what they post, and what the database has of it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import connections

from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from tests import waiting
from tests.servers import Server, session_headers
from tests.sse import Frame, Response, check_ids, check_sequence, events_of, request

T = TypeVar("T")

WAIT_SECONDS = 20


def fresh(name: str) -> str:
    """Return an id that nobody has used: the tests of this folder share one database."""
    return f"{name}-{uuid4().hex[:12]}"


eventually = partial(waiting.eventually, seconds=WAIT_SECONDS, pause=0.02)


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make the calls at the same moment, each in a thread of its own, and return what they return."""
    barrier = threading.Barrier(len(calls))

    def make(call: Callable[[], T]) -> T:
        barrier.wait(WAIT_SECONDS)
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(make, calls))


def run_input(run_id: str, *messages: str | Mapping[str, Any], thread_id: str = "t1", **fields: Any) -> dict[str, Any]:
    """Return a RunAgentInput of a client that declares AG-UI 1.0; a text stands for a user message of its own."""
    written = [
        {"id": f"{run_id}-u{index}", "role": "user", "content": message} if isinstance(message, str) else message
        for index, message in enumerate(messages)
    ]
    return {"threadId": thread_id, "runId": run_id, "messages": written, "protocolVersion": "1.0", **fields}


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """A browser of one user, who is logged in unless `user` is None."""

    user: User | None
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def new(cls) -> "Visitor":
        user = User.objects.create_user(fresh("user"), email="live@example.com", password="secret")
        return cls(user=user, headers=session_headers(user))

    @property
    def owner(self) -> Owner:
        assert self.user is not None
        return Owner.of_user(self.user)

    def post(
        self, server: Server, run_id: str, *messages: str | Mapping[str, Any], route: str = "agent/", **fields: Any
    ) -> Response:
        """Post a RunAgentInput and return when the head of the response is there."""
        return self.send(server, run_input(run_id, *messages, **fields), route=route)

    def send(
        self,
        server: Server,
        body: Mapping[str, Any],
        *,
        route: str = "agent/",
        headers: Mapping[str, str] | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> Response:
        """Post a body as it is."""
        return request(
            "POST",
            f"{server.url}/{route}",
            headers={**self.headers, **(headers or {})},
            json_body=body,
            timeout=timeout,
        )

    def run(self, server: Server, run_id: str, *messages: str | Mapping[str, Any], **options: Any) -> list[Frame]:
        """Post a RunAgentInput and return the frames of the whole stream."""
        with self.post(server, run_id, *messages, **options) as response:
            return read_run(response)

    def read(
        self,
        server: Server,
        body: Mapping[str, Any],
        *,
        route: str = "agent/",
        headers: Mapping[str, str] | None = None,
    ) -> list[Frame]:
        """Post a body as it is and return the frames of the whole stream."""
        with self.send(server, body, route=route, headers=headers) as response:
            return read_run(response)

    def follow(
        self,
        server: Server,
        run_id: str,
        *,
        mount: str = "agent/",
        query: str = "protocol=1.0",
        headers: Mapping[str, str] | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> Response:
        """Ask for the events of a run, from the first on if neither query nor headers say otherwise."""
        url = f"{server.url}/{mount}runs/{encode_id(run_id)}/events/?{query}"
        return request("GET", url, headers={**self.headers, **(headers or {})}, timeout=timeout)

    def log(self, server: Server, run_id: str, **options: Any) -> list[Frame]:
        """Return the frames of the whole log of a run, once that has ended."""
        with self.follow(server, run_id, **options) as response:
            return read_run(response)

    def get(self, server: Server, route: str) -> tuple[int, Any]:
        """Return status and JSON of a page."""
        with request("GET", f"{server.url}/{route}", headers=self.headers, timeout=WAIT_SECONDS) as response:
            return response.status, response.json()

    def answer(self, server: Server, body: Mapping[str, Any], *, route: str = "agent/") -> tuple[int, Any]:
        """Post a body that is refused; return status and JSON."""
        with self.send(server, body, route=route) as response:
            return response.status, response.json()

    def cancel(self, server: Server, run_id: str, *, mount: str = "talk/") -> None:
        """Stop a run, and return once it has ended."""
        url = f"{server.url}/{mount}runs/{encode_id(run_id)}/cancel/"
        request("POST", url, headers=self.headers, timeout=WAIT_SECONDS).close()
        self.ended(run_id)

    def row(self, run_id: str) -> Run:
        """Return the run as the database has it."""
        return Run.objects.for_owner(self.owner, "", run=run_id).get()

    def ended(self, run_id: str) -> Run:
        """Return the run once it has ended and its log has come to rest."""

        def look() -> Run | None:
            row = self.row(run_id)
            is_live = RunStatus(row.status).is_live or row.frames.filter(is_compressed=False).exists()
            return None if is_live else row

        row = eventually(look)
        assert row is not None
        return row

    def stored_log(self, run_id: str) -> list[bytes]:
        """Return the frames of the run that are committed."""
        return stored_log(self.row(run_id).pk)


def stored_log(key: int) -> list[bytes]:
    """Return the committed frames of a run."""
    frames: list[bytes] = []
    while more := DatabaseRunStore().read_frames(key, after=len(frames), max_bytes=1024 * 1024):
        frames += more
    return frames


def read_run(response: Response) -> list[Frame]:
    """Return all frames of a stream, the response of which is as it should be."""
    if response.status != 200:
        raise AssertionError(f"{response.status}: {response.read()!r}")
    return list(response.frames())


def lines_of(frames: Sequence[Frame]) -> list[bytes]:
    """Return what the log holds of these frames."""
    return [frame.raw.partition(b"data: ")[2].rstrip(b"\n") for frame in frames if frame.event is not None]


def text_of(frames: Sequence[Frame]) -> str:
    """Return what the agent said."""
    return "".join(event["delta"] for event in events_of(frames) if event["type"] == "TEXT_MESSAGE_CONTENT")


def types_of(frames: Sequence[Frame]) -> list[str]:
    return [event["type"] for event in events_of(frames)]


def check_complete(visitor: Visitor, run_id: str, frames: Sequence[Frame]) -> Mapping[str, Any]:
    """Check that a viewer saw a whole run, byte for byte as the log has it; return the terminal event."""
    check_ids(frames, run_id=run_id)
    terminal = check_sequence(events_of(frames))
    assert terminal is not None
    row = visitor.row(run_id)
    assert (lines_of(frames), len(lines_of(frames))) == (stored_log(row.pk), row.last_seq)
    assert row.status == ("failed" if terminal["type"] == "RUN_ERROR" else "finished")
    return terminal
