"""What is compared: real servers under the same load, each on a core of its own where the machine has two."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.agents import Task
from tests.servers import HOST, ROOT, Server, serve

T = TypeVar("T")

QUIET = ("--no-access-log", "--log-level", "warning")
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = CORES[:2] if len(CORES) > 1 else (None, None)


@dataclass(frozen=True, slots=True)
class Stream:
    """What the client saw of one stream: instants of the monotonic clock, and the ages of its deltas, in seconds."""

    sent: float
    first: float
    last: float
    events: int
    bytes: int
    ages: list[float]


@dataclass(frozen=True, slots=True)
class Side:
    """A path of a running server that takes a `RunAgentInput`."""

    server: Server
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)

    def load(self, *tasks: Task, history: Sequence[Mapping[str, Any]] = (), run_id: str | None = None) -> list[Stream]:
        """Start a run for each task at the same moment and return what came of them; `run_id` names the only one."""
        return self._streams([self._start(task, history, run_id or uuid.uuid4().hex) for task in tasks])

    def read(self, query: str = "") -> Stream:
        """Read the stream at this path to its end."""
        (stream,) = self._streams([self._request("GET", self.path + query)])
        return stream

    @contextmanager
    def opened(self, task: Task, count: int, *, of_one_run: bool) -> Iterator[None]:
        """Hold `count` streams open while the block lasts, all of one run or each of its own."""
        run_ids = [uuid.uuid4().hex for _ in range(count)]
        requests = [self._start(task, (), run_ids[0 if of_one_run else number]) for number in range(count)]
        with self._client(requests, at_once=False) as client:
            if client.stdout.readline() != "open\n":
                raise RuntimeError(f"the client failed:\n{client.stderr.read()}\n{self.server.log()}")
            yield

    def _streams(self, requests: Sequence[str]) -> list[Stream]:
        with self._client(requests, at_once=True) as client:
            client.stdout.readline()
            seen = client.stdout.readline()
            if not seen:
                raise RuntimeError(f"the client failed:\n{client.stderr.read()}\n{self.server.log()}")
            found = json.loads(seen)
        if found["load"] > 0.8:
            print(f"the client was busy for {found['load']:.0%} of the time: it may be what was measured")
        return [Stream(**stream) for stream in found["streams"]]

    def _start(self, task: Task, history: Sequence[Mapping[str, Any]], run_id: str) -> str:
        body = json.dumps(
            {
                "threadId": run_id,
                "runId": run_id,
                "messages": [*history, {"id": f"u-{run_id}", "role": "user", "content": task.prompt()}],
                "state": {},
                "tools": [],
                "context": [],
                "forwardedProps": {},
                "protocolVersion": "1.0",
            }
        )
        return self._request("POST", self.path, body)

    def _request(self, method: str, target: str, body: str = "") -> str:
        headers = {
            "Host": f"{HOST}:{self.server.port}",
            "Accept": "text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self.headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n{body}"

    @contextmanager
    def _client(self, requests: Sequence[str], *, at_once: bool) -> Iterator[subprocess.Popen[str]]:
        client = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.client"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            spec = {"port": self.server.port, "core": CLIENT_CORE, "at_once": at_once, "requests": list(requests)}
            client.stdin.write(json.dumps(spec) + "\n")
            client.stdin.flush()
            yield client
        finally:
            client.communicate()


@contextmanager
def served(application: str, **env: str) -> Iterator[Server]:
    """Serve an ASGI application with uvicorn while the block lasts."""
    with serve("uvicorn", application=application, env=env, options=QUIET) as server:
        if SERVER_CORE is not None:
            for thread in os.listdir(f"/proc/{server.process.pid}/task"):
                os.sched_setaffinity(int(thread), [SERVER_CORE])
        yield server


@contextmanager
def bare() -> Iterator[Side]:
    """Serve the agent with pydantic-ai's own adapter."""
    with served("tests.bare:application", BARE_AGENT="benchmarks.agents:agent") as server:
        yield Side(server)


@contextmanager
def django() -> Iterator[Server]:
    """Serve the Django side, on the database that is connected."""
    with served("benchmarks.asgi:application") as server:
        yield server


def alternate(rounds: int, *measures: Callable[[], T]) -> list[tuple[T, ...]]:
    """Take every measure once to warm up, then in turn, so that what the machine does meanwhile falls on all alike."""
    for measure in measures:
        measure()
    return [tuple(measure() for measure in measures) for _ in range(rounds)]
