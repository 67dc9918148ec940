"""Threads in the memory of one process, with their messages and runs."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic_core import to_json

from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.threads.branch import Branch, BranchMessage, BranchRun, content_digest

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

IDLE_THREADS = 1_000
"""How many threads without a live run are remembered."""

ScopedName = tuple[Owner, str, str]
Key = tuple[int, int, int]
Order = tuple[datetime, int]


@dataclass(slots=True)
class KeptMessage:
    """A message as JSON, so that nobody who has written or read it changes it."""

    id: str
    role: str
    digest: str
    body: bytes
    through_seq: int
    superseded_by: int | None = None


@dataclass(slots=True)
class KeptRun:
    key: int
    run_id: str
    turn: int
    status: RunStatus = RunStatus.QUEUED
    superseded_by: int | None = None


@dataclass(slots=True)
class KeptThread:
    name: ScopedName
    number: int
    updated_at: datetime
    revision: int = 0
    title: str = ""
    is_titled_by_person: bool = False
    preview: str | None = None
    is_archived: bool = False
    next_turn: int = 1
    state: bytes = b"null"
    state_of: tuple[int, int] = (0, 0)
    waiting: int | None = None
    calls: Sequence[str] = ()
    interrupts: bytes = b"[]"
    messages: dict[Key, KeptMessage] = field(default_factory=dict)
    runs: dict[int, KeptRun] = field(default_factory=dict)

    @property
    def order(self) -> Order:
        return self.updated_at, self.number

    @property
    def keys(self) -> list[Key]:
        return sorted(self.messages)

    @property
    def live(self) -> list[KeptRun]:
        return [run for run in self.runs.values() if run.status.is_live]

    @property
    def active(self) -> KeptRun | None:
        live = [run for run in self.live if run.superseded_by is None]
        return min(live, key=lambda run: (run.turn, run.key), default=None)

    @property
    def newest(self) -> KeptRun | None:
        """The run that is going or first in the queue, else the newest one of the current branch."""
        current = [run for run in self.runs.values() if run.superseded_by is None]
        return self.active or max(current, key=lambda run: run.key, default=None)

    def is_at(self, status: str) -> bool:
        """Return whether the newest run has this status; of a live one it is not known whether it has begun."""
        run = self.newest
        return run is not None and (run.status == status or (run.status.is_live and RunStatus(status).is_live))

    def current(self) -> Iterator[tuple[Key, KeptMessage]]:
        return ((key, self.messages[key]) for key in self.keys if self.messages[key].superseded_by is None)

    def branch(self) -> Branch:
        return Branch(
            [
                BranchMessage(
                    id=message.id,
                    role=message.role,
                    turn=key[0],
                    run=key[1],
                    digest=message.digest,
                    is_superseded=message.superseded_by is not None,
                )
                for key, message in ((key, self.messages[key]) for key in self.keys)
            ],
            [
                BranchRun(key=run.key, turn=run.turn, status=run.status, is_superseded=run.superseded_by is not None)
                for run in self.runs.values()
            ],
        )

    def put(self, key: Key, message: "JsonObject", *, through_seq: int, superseded_by: int | None = None) -> None:
        form = wire_form(message)
        there = self.messages.get(key)
        self.messages[key] = KeptMessage(
            id=form["id"],
            role=form["role"],
            digest=content_digest(form),
            body=to_json(form),
            through_seq=through_seq,
            superseded_by=superseded_by if there is None else there.superseded_by,
        )

    def replace_behind(self, place: int, run: int) -> None:
        """Mark what stands at `place` of the current branch, and behind it, as replaced by `run`."""
        keys = [key for key, _ in self.current()][place:]
        if not keys:
            return
        for key in keys:
            self.messages[key].superseded_by = run
        for other in self.runs.values():
            if other.superseded_by is None and (other.turn, other.key) >= keys[0][:2]:
                other.superseded_by = run

    def go_back_to(self, earlier: int, run: int) -> None:
        """Make the branch of an earlier run the current one, and mark the rest as replaced by `run`."""
        end = (self.runs[earlier].turn, earlier)
        rows: list[tuple[tuple[int, int], KeptMessage | KeptRun]] = [
            (key[:2], row) for key, row in self.messages.items()
        ]
        rows += [((row.turn, row.key), row) for row in self.runs.values()]
        for (turn, writer), row in rows:
            if turn <= end[0] and writer <= end[1]:
                if row.superseded_by is not None and row.superseded_by > earlier:
                    row.superseded_by = None
            elif row.superseded_by is None:
                row.superseded_by = run


class KeptThreads:
    """What the scopes of one store share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.numbers = itertools.count(1)
        self.threads: dict[ScopedName, KeptThread] = {}
        self.of_run: dict[int, KeptThread] = {}

    def forget(self, thread: KeptThread) -> None:
        del self.threads[thread.name]
        for run in thread.runs:
            del self.of_run[run]

    def forget_idle(self) -> None:
        """Forget the idle threads that changed longest ago."""
        if len(self.threads) > IDLE_THREADS:
            idle = sorted((thread for thread in self.threads.values() if not thread.live), key=lambda t: t.order)
            for thread in idle[: len(self.threads) - IDLE_THREADS]:
                self.forget(thread)
