"""The processes that tests of this folder start and kill, and the account that the log gives of their runs."""

import json
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from django.contrib.auth.models import User
from django.test import Client

from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.contrib.store.models import Run, RunFrames, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus
from django_pydantic_agent.log.preamble import messages_told
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.attach import preamble
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.runs.recovery import Recovery
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from django_pydantic_agent.stores.base import StoredRun
from tests.sse import check_sequence
from tests.waiting import eventually

_FRAME = re.compile(rb"id: ([^\n]*):(\d+)\ndata: ([^\n]*)\n\n")

Json = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One process; `output` holds what it has shown so far."""

    pid: int
    output: Path

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL, return once the process is gone."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        if number is signal.SIGKILL:
            self.wait_gone()

    def wait_gone(self) -> None:
        """Return once the process is gone, by itself or not."""
        eventually(lambda: not psutil.pid_exists(self.pid))

    @property
    def text(self) -> bytes:
        return self.output.read_bytes()

    @property
    def is_done(self) -> bool:
        return self.text.endswith(b"\n: done\n\n")

    def shown(self) -> dict[int, bytes]:
        """Return the frames that the process has shown, by seq."""
        return {int(seq): frame for _, seq, frame in _FRAME.findall(self.text)}

    def wait_shown(self, frames: int) -> None:
        """Return once the process has shown that many frames, or has nothing more to show."""
        eventually(lambda: self.is_done or len(self.shown()) >= frames)

    def wait_done(self) -> None:
        eventually(lambda: self.is_done)


@dataclass
class Processes:
    """Starts runs of one user in processes of their own, and recovers them in the process of the test."""

    start: Callable[..., Job]
    user: User
    numbers: "count[int]"

    @classmethod
    def new(cls, start: Callable[..., Job]) -> "Processes":
        return cls(start, User.objects.create_user("ada"), count(1))

    @property
    def owner(self) -> Owner:
        return Owner.of_user(self.user)

    def body(self, script: Sequence[Any], *, thread_id: str = "t", state: Any = None) -> Json:
        number = next(self.numbers)
        message = {"id": f"u{number}", "role": "user", "content": json.dumps(script)}
        body = {"threadId": thread_id, "runId": f"r{number}", "messages": [message], "protocolVersion": "1.0"}
        return {**body, "state": state or {}, "tools": [], "context": [], "forwardedProps": {}}

    def post(self, body: Json, *, mount: str = "talk", drain: str | None = None) -> Job:
        """Post in a process of its own and return once its run is there; the process drains at the gate `drain`."""
        job = self.start("post", user=self.user.pk, path=f"/{mount}/", body=body, drain=drain)
        eventually(lambda: job.is_done or Run.objects.filter(run_id=body["runId"]).exists())
        return job

    @property
    def client(self) -> Client:
        """A browser of the user."""
        client = Client()
        client.force_login(self.user)
        return client

    def post_here(self, body: Json, *, mount: str = "talk", route: str = "") -> list[Json]:
        """Post in the process of the test; return the events."""
        response = self.client.post(f"/{mount}/{route}", json.dumps(body), content_type="application/json")
        assert response.streaming, response.content
        text = b"".join(response.streaming_content)
        return [json.loads(frame) for _, _, frame in _FRAME.findall(text)]

    def thread(self, mount: str = "talk", thread_id: str = "t") -> Json:
        found: Json = self.client.get(f"/{mount}/threads/{encode_id(thread_id)}/").json()
        return found

    def recover(self) -> Recovery:
        """Have the process of the test look, a lease apart by a clock of its own, and execute what it begins.

        A takeover that a busy machine makes wait is left to the next look.
        """
        now = [0.0]
        store = durable_store()
        assert store is not None
        recovery = Recovery(get_engine(), store, clock=lambda: now[0])
        recovery.look()

        def recovered() -> bool:
            now[0] += 1000.0
            recovery.look()
            get_engine().wait()
            return not Run.objects.live().exists()

        eventually(recovered)
        return recovery

    def run(self, body: Json) -> StoredRun:
        store = durable_store()
        assert store is not None
        run = store.get(owner=self.owner, scope="", run_id=body["runId"])
        assert run is not None
        return run

    def check(self, body: Json, job: Job | None = None, *, known_calls: Sequence[str] = ()) -> list[Json]:
        """Check that the log of an ended run is whole and holds all that was seen of it; return its events.

        `known_calls` are calls of earlier runs.
        """
        run, store = self.run(body), durable_store()
        assert store is not None
        assert not run.status.is_live
        frames: list[bytes] = []
        while some := store.read_frames(run.key, after=len(frames), max_bytes=1 << 20):
            frames += some
        assert len(frames) == run.last_seq
        rows = RunFrames.objects.filter(run=run.key, piece=0).order_by("first_seq").values_list("first_seq", "last_seq")
        assert [first for first, _ in rows] == [1, *(last + 1 for _, last in list(rows)[:-1])]
        if job is not None:
            assert {name for name, _, _ in _FRAME.findall(job.text)} <= {run.run_id.encode()}
            for seq, frame in job.shown().items():
                assert frames[seq - 1] == frame
        events = [json.loads(frame) for frame in frames]
        terminal = check_sequence(events, known_calls=known_calls)
        assert terminal is not None
        assert (terminal["type"] == "RUN_ERROR") == (run.status in (RunStatus.ORPHANED, RunStatus.FAILED))
        unresolved = ToolEffect.objects.filter(run=run.key, status=EffectStatus.STARTED)
        assert not unresolved.filter(reason="").exists()
        told = preamble(run, store=store, conversation=find_mount(run.server).conversation)
        assert (told.seq, told.frames[0], told.frames[-1]) == (run.last_seq, frames[0], frames[-1])
        written = Projection(state={})
        for frame in frames:
            written.apply_frame(frame)
        assert messages_told(told.frames)[-len(written.messages) :] == written.messages
        return events
