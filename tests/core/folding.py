"""What a run adds up to: to the projection, and to stock clients that read its frames."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ag_ui.core import BaseEvent
from hypothesis import HealthCheck, settings

from django_pydantic_agent.log.chunks import Chunks
from django_pydantic_agent.log.frames import encode
from django_pydantic_agent.log.projection import Projection
from tests.core.streams import Stream
from tests.stock_client import NODE, install_clients

drawn = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


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


@contextmanager
def running_client() -> Iterator[Client]:
    client = Client()
    with client.process:
        yield client


def logged(events: Sequence[BaseEvent]) -> list[list[bytes]]:
    """Return the frames that the log gets for each event."""
    chunks = Chunks()
    return [[encode(part) for part in chunks.expand(event)] for event in events]


def frames_of(stream: Stream) -> list[bytes]:
    return [frame for frames in logged(stream.events) for frame in frames]


def projected(stream: Stream, frames: Sequence[bytes]) -> Projection:
    projection = Projection(stream.messages, state=stream.state)
    for frame in frames:
        projection.apply_frame(frame)
    return projection


def seen(projection: Projection) -> dict[str, Any]:
    """Return what a client is to hold, in the form of its answer."""
    return {"messages": projection.messages, "state": projection.state, "error": None}
