import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ag_ui.core import BaseEvent, MessagesSnapshotEvent, StateSnapshotEvent
from hypothesis import HealthCheck, given, settings

from django_pydantic_agent.log.chunks import Chunks
from django_pydantic_agent.log.frames import encode
from django_pydantic_agent.log.projection import Projection
from tests.core.drawn_streams import streams
from tests.core.streams import STREAMS, Stream
from tests.stock_client import NODE, install_clients


class Client:
    """The stock client, in a process that answers one stream after the other."""

    def __init__(self) -> None:
        install_clients()
        self.process = subprocess.Popen(
            ["node", "project_events.mjs"], cwd=NODE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def answers(
        self, stream: Stream, frames: Sequence[bytes], *, version: str = "1.0.0", every: bool = False
    ) -> list[dict[str, Any]]:
        """Return what the client holds after all frames, or with `every` after each number of them from one."""
        job = {
            "clientVersion": version,
            "messages": list(stream.messages),
            "state": stream.state,
            "frames": [frame.decode() for frame in frames],
            "every": every,
        }
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    started = Client()
    yield started
    started.process.stdin.close()
    started.process.wait(30)
    started.process.stdout.close()


def logged(events: Sequence[BaseEvent]) -> list[list[bytes]]:
    """Return the frames that the log gets for each event."""
    chunks = Chunks()
    return [[encode(part) for part in chunks.expand(event)] for event in events]


def project(stream: Stream, frames: Sequence[bytes]) -> Projection:
    projection = Projection(stream.messages, state=stream.state)
    for frame in frames:
        projection.apply_frame(frame)
    return projection


def expected(projection: Projection) -> dict[str, Any]:
    return {"messages": projection.messages, "state": projection.state, "error": None}


@pytest.mark.node
@pytest.mark.parametrize("name", STREAMS)
def test_after_each_event_messages_and_state_are_those_of_the_client(client, name):
    stream = STREAMS[name]
    answers = client.answers(stream, [encode(event) for event in stream.events], every=True)
    projection = Projection(stream.messages, state=stream.state)
    for event, frames, answer in zip(stream.events, logged(stream.events), answers, strict=True):
        for frame in frames:
            projection.apply_frame(frame)
        assert answer == expected(projection), event


@pytest.mark.node
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(stream=streams())
def test_any_legal_run_adds_up_to_what_the_client_makes_of_it(client, stream):
    frames = [encode(event) for event in stream.events]
    assert client.answers(stream, frames) == [expected(project(stream, frames))]
