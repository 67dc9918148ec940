"""Runs in the memory of one process: for projects without the store app, and for visitors without an identity."""

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_pydantic_agent.exceptions import (
    IdempotencyKeyTaken,
    InterruptDecided,
    InvalidInput,
    LeaseLost,
    RunIdTaken,
    RunNotFound,
    UnstorableWrite,
)
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.approvals import StoredInterrupt, asked_interrupts
from django_pydantic_agent.stores.base import NewRun, RunPage, RunQuery, RunStore, StoredRun, UnresolvedCall
from django_pydantic_agent.stores.memory_history import Boundary, IdempotencyName, MemoryHistory, MemoryRun
from django_pydantic_agent.stores.writes import KeptFold, RunWrite

if TYPE_CHECKING:
    from django_pydantic_agent.stores.conversations import ConversationStore

ENDED_RUNS = 256
"""How many runs are remembered after their end."""

RunName = tuple[Owner, str, str]


class MemoryRunStore(RunStore):
    """Keeps runs until the process ends, the ended ones until `ENDED_RUNS` newer ones have ended."""

    durable = False
    leases = None

    def __init__(self) -> None:
        self._keys = itertools.count(1)
        self._lock = threading.RLock()
        self._entries: dict[int, MemoryRun] = {}
        self._names: dict[RunName, int] = {}
        self._by_idempotency: dict[IdempotencyName, int] = {}
        self._ended: list[int] = []

    def create(self, new: NewRun, *, on_commit: Callable[[StoredRun, bytes], None]) -> StoredRun:
        with self._lock:
            name = None if new.owner is None else (new.owner, new.scope, new.run_id)
            if name in self._names:
                raise RunIdTaken(self._entries[self._names[name]].run)
            idempotency, key_name = new.idempotency, None
            if new.owner is not None and idempotency is not None:
                key_name = (new.owner, new.scope, new.server, idempotency.key)
            if key_name in self._by_idempotency:
                raise IdempotencyKeyTaken
            run = StoredRun(
                key=next(self._keys),
                owner=new.owner,
                scope=new.scope,
                run_id=new.run_id,
                thread_id=new.thread_id,
                server=new.server,
                status=RunStatus.QUEUED,
                digest=new.digest,
                started_at=datetime.now(UTC),
                content_digest=idempotency.content if idempotency else "",
                parent_run_id=new.parent.run_id if new.parent else None,
                cancel_after=new.cancel_after,
            )
            decided = self._decided(new, run.key)
            parent = new.parent.key if new.parent else None
            entry = MemoryRun(run, new.input, list(new.message_ids), new.request, parent=parent)
            # An answer comes before the turns that are queued behind the question.
            entry.place = (self._entries[decided[0].run].place[0] if decided else run.key, run.key)
            first_frame = new.first_frame(new.accept_turn(run.key))
            entry.frames.append(first_frame)
            for interrupt in decided:
                self._entries[interrupt.run].asked[interrupt.id] = interrupt
            for key in new.gives_up:
                if key in self._entries:
                    self._entries[key].give_up(Decision.CANCELLED, decided_by=run.key)
            self._entries[run.key] = entry
            if name is not None:
                self._names[name] = run.key
            if key_name is not None:
                self._by_idempotency[key_name] = run.key
                entry.idempotency_name = key_name
        on_commit(run, first_frame)
        return run

    def get(self, *, owner: Owner | None, scope: str, run_id: str) -> StoredRun | None:
        with self._lock:
            key = None if owner is None else self._names.get((owner, scope, run_id))
            return None if key is None else self._entries[key].stored()

    def by_key(self, key: int, *, owner: Owner | None) -> StoredRun | None:
        with self._lock:
            entry = self._entries.get(key)
            return entry.stored() if entry is not None and entry.run.owner == owner else None

    def by_keys(self, keys: Collection[int], *, owner: Owner | None) -> Mapping[int, StoredRun]:
        found = {key: self.by_key(key, owner=owner) for key in keys}
        return {key: run for key, run in found.items() if run is not None}

    def by_idempotency_key(self, key: str, *, owner: Owner | None, scope: str, server: str) -> StoredRun | None:
        with self._lock:
            found = None if owner is None else self._by_idempotency.get((owner, scope, server, key))
            return None if found is None else self._entries[found].stored()

    def page(self, *, owner: Owner | None, scope: str, query: RunQuery) -> RunPage:
        if query.cursor is not None and not query.cursor.isdecimal():
            raise InvalidInput("the cursor is not one that this server gave for this list")
        with self._lock:
            own = [self._entries[key].stored() for name, key in self._names.items() if name[:2] == (owner, scope)]
        runs = [run for run in sorted(own, key=lambda run: -run.key) if _matches(run, query)]
        if query.limit and len(runs) > query.limit:
            runs = runs[: query.limit]
            return RunPage(runs, next=str(runs[-1].key))
        return RunPage(runs)

    def input(self, key: int) -> bytes:
        return self._entry(key).input

    def request(self, key: int) -> dict[str, Any] | None:
        return self._entry(key).request

    def folded(self, key: int) -> KeptFold:
        with self._lock:
            entry = self._entry(key)
            return KeptFold(frames=entry.folded, last_seq=entry.run.last_seq)

    def keep_fold(self, key: int, frames: Sequence[bytes]) -> None:
        with self._lock:
            if key in self._entries:
                self._entries[key].folded = list(frames)

    def history(self, key: int) -> MemoryHistory:
        return MemoryHistory(self._entries, self._entries[key])

    def boundary_seq(self, key: int) -> int:
        entry = self._entries.get(key)
        return entry.boundary_seq if entry else 0

    def ahead(self, key: int) -> StoredRun | None:
        with self._lock:
            place, own = self._entries[key].place, self._entries[key].run
            ahead = [
                entry.stored()
                for entry in self._entries.values()
                if entry.place < place
                and (entry.run.status.is_live or entry.undecided)
                and (entry.run.owner, entry.run.scope, entry.run.thread_id) == (own.owner, own.scope, own.thread_id)
            ]
        return max(ahead, key=lambda run: self._entries[run.key].place, default=None)

    def asked_by(
        self, interrupt_id: str, *, owner: Owner | None, scope: str, server: str, thread_id: str
    ) -> StoredRun | None:
        with self._lock:
            entries = self._of_thread(owner, scope, server, thread_id)
            return next((entry.stored() for entry in entries if interrupt_id in entry.asked), None)

    def interrupts(self, key: int) -> Sequence[StoredInterrupt]:
        return list(self._entry(key).asked.values())

    def answers(self, key: int) -> Sequence[StoredInterrupt]:
        with self._lock:
            return [
                interrupt
                for entry in self._entries.values()
                for interrupt in entry.asked.values()
                if interrupt.decided_by == key and interrupt.answer is not None
            ]

    def undecided(self, *, owner: Owner | None, scope: str, server: str, thread_id: str) -> Sequence[int]:
        with self._lock:
            return [entry.run.key for entry in self._of_thread(owner, scope, server, thread_id) if entry.undecided]

    def give_up(self, key: int, decision: Decision, *, conversation: "ConversationStore | None") -> Sequence[str]:
        with self._lock:
            given_up = self._entry(key).give_up(decision)
            if conversation is not None:
                conversation.end_wait(run=key)
        return given_up

    def lineage_message_ids(self, key: int) -> set[str]:
        ids: set[str] = set()
        with self._lock:
            ancestor: int | None = key
            while ancestor is not None and (entry := self._entries.get(ancestor)) is not None:
                ids.update(entry.message_ids)
                ancestor = entry.parent
        return ids

    def read_frames(self, key: int, *, after: int, max_bytes: int) -> list[bytes]:
        with self._lock:
            entry = self._entries.get(key)
            frames = entry.frames[after:] if entry else []
        size, kept = 0, 0
        for frame in frames:
            size += len(frame)
            kept += 1
            if size >= max_bytes:
                break
        return frames[:kept]

    def first_seq(self, key: int) -> int:
        return 1

    def progress(self, keys: Collection[int]) -> dict[int, tuple[int, RunStatus]]:
        with self._lock:
            found = [self._entries[key].run for key in keys if key in self._entries]
        return {run.key: (run.last_seq, run.status) for run in found}

    def commit(self, writes: Sequence[RunWrite]) -> list[Exception | None]:
        with self._lock:
            return [self._commit_or_refuse(write) for write in writes]

    def unresolved_calls(self, key: int) -> Sequence[UnresolvedCall]:
        return ()

    def tidy(self, key: int) -> None:
        """Forget the runs that ended longest ago."""
        with self._lock:
            self._ended.append(key)
            for old in self._ended[:-ENDED_RUNS]:
                entry = self._entries.pop(old)
                run = entry.run
                if run.owner is not None:
                    del self._names[run.owner, run.scope, run.run_id]
                if entry.idempotency_name is not None:
                    del self._by_idempotency[entry.idempotency_name]
            del self._ended[:-ENDED_RUNS]

    def _of_thread(self, owner: Owner | None, scope: str, server: str, thread_id: str) -> list[MemoryRun]:
        name = (owner, scope, server, thread_id)
        entries = [self._entries[key] for key in self._names.values()]
        return [
            entry
            for entry in entries
            if (entry.run.owner, entry.run.scope, entry.run.server, entry.run.thread_id) == name
        ]

    def _decided(self, new: NewRun, run: int) -> list[StoredInterrupt]:
        """Return the interrupts that a new run answers, as they are then."""
        decided = []
        for answer in new.answers:
            entry = self._entries.get(answer.run)
            asked = None if entry is None else entry.asked.get(answer.id)
            if asked is None or asked.decision is not Decision.PENDING:
                raise InterruptDecided
            decided.append(replace(asked, decision=answer.decision, answer=answer.said, decided_by=run))
        return decided

    def _entry(self, key: int) -> MemoryRun:
        with self._lock:
            if key not in self._entries:
                raise RunNotFound
            return self._entries[key]

    def _commit_or_refuse(self, write: RunWrite) -> Exception | None:
        try:
            return self._commit(write)
        # A conversation store, which may be anyone's, may raise anything.
        except Exception as error:
            refusal = UnstorableWrite("what the run wrote is refused")
            refusal.__cause__ = error
            return refusal

    def _commit(self, write: RunWrite) -> Exception | None:
        entry = self._entries[write.key]
        run = entry.run
        if run.epoch != write.epoch or not run.status.is_live or run.last_seq != write.first_seq - 1:
            return LeaseLost(f"run {run.run_id!r} is not at seq {write.first_seq - 1} of epoch {write.epoch}")
        write.save_turns()
        entry.frames += write.all_frames
        for change in write.ledger:
            if isinstance(change, Boundary):
                entry.end, entry.boundary_seq = change.messages, change.seq
        changed = replace(run, last_seq=run.last_seq + len(write.all_frames))
        if write.begins:
            changed = replace(changed, status=RunStatus.RUNNING)
        if write.ending is not None:
            entry.message_ids += write.ending.message_ids
            entry.folded = list(write.ending.folded)
            changed = replace(
                changed,
                status=write.ending.status,
                finished_at=datetime.now(UTC),
                error=write.ending.error,
                interrupts=list(write.ending.interrupts),
                pending_calls=list(write.ending.pending_calls),
            )
            asked = asked_interrupts(run.key, write.ending.interrupts, write.ending.asked_calls)
            entry.asked = {interrupt.id: interrupt for interrupt in asked}
            if asked and write.conversation is not None and not _are_open(entry.asked, run, write.conversation):
                entry.give_up(Decision.CANCELLED)
                write.asks_nobody = True
        entry.run = changed
        return None


def _are_open(interrupts: Collection[str], run: StoredRun, conversation: "ConversationStore") -> bool:
    """Return whether the thread of a run waits for decisions on these interrupts."""
    thread = None if run.owner is None else conversation.view(owner=run.owner, thread_id=run.thread_id)
    return thread is not None and not thread.open_interrupts.isdisjoint(interrupts)


def _matches(run: StoredRun, query: RunQuery) -> bool:
    return (
        (query.cursor is None or run.key < int(query.cursor))
        and (query.thread_id is None or run.thread_id == query.thread_id)
        and (query.status is None or run.status == query.status)
        and (query.text is None or query.text.casefold() in f"{run.run_id} {run.preview or ''}".casefold())
    )
