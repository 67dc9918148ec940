"""Conversations in the memory of one process."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from django_pydantic_agent.exceptions import InvalidInput, ThreadChanged, ThreadNotFound
from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.log.preview import preview
from django_pydantic_agent.ownership import Owner, resolve_owner
from django_pydantic_agent.stores.conversations import (
    ActiveRun,
    ConversationStore,
    ReplacedMessages,
    StoredThread,
    ThreadName,
    ThreadPage,
    ThreadQuery,
    ThreadRow,
    ThreadRun,
    ThreadSoFar,
    TurnGround,
    TurnSave,
    TurnStart,
)
from django_pydantic_agent.stores.memory_threads import KeptRun, KeptThread, KeptThreads, Order
from django_pydantic_agent.threads.branch import IMPORTED
from django_pydantic_agent.threads.titles import cut_title, whole_title

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject
    from django_pydantic_agent.stores.writes import Ending
    from django_pydantic_agent.threads.posture import ThreadOutline


class MemoryConversationStore(ConversationStore):
    """Keeps threads until the process ends, those without a live run until `IDLE_THREADS` others changed later.

    For tests, and for projects that keep their runs in memory too.
    """

    def __init__(self, allow_anonymous: bool = False) -> None:
        self.allow_anonymous = allow_anonymous
        self.scope = ""
        self._kept = KeptThreads()

    def scoped(self, scope: str) -> "MemoryConversationStore":
        """Return the store that holds the threads of `scope` only."""
        if self.scope:
            raise ValueError(f"the store is scoped to {self.scope!r} already")
        store = copy(self)
        store.scope = scope
        return store

    def owner(self, request: Any) -> Owner | None:
        return resolve_owner(request, allow_anonymous=self.allow_anonymous)

    def view(self, *, owner: Owner, thread_id: str) -> "ThreadOutline | None":
        with self._kept.lock:
            thread = self._kept.threads.get((owner, self.scope, thread_id))
            if thread is None:
                return None
            return thread.branch().view(
                revision=thread.revision,
                waiting=thread.waiting,
                calls=thread.calls,
                interrupts=from_json(thread.interrupts),
            )

    def read(self, *, owner: Owner, thread_id: str, superseded: bool = False) -> StoredThread:
        with self._kept.lock:
            thread = self._thread(owner, thread_id)
            active = thread.active
            applied_seq, behind = 1, 0
            replaced: dict[int, list[JsonObject]] = {}
            messages = []
            for key in thread.keys:
                row = thread.messages[key]
                if row.superseded_by is not None:
                    replaced.setdefault(row.superseded_by, []).append(from_json(row.body))
                    continue
                messages.append(from_json(row.body))
                if active is not None and key[1] == active.key:
                    applied_seq = max(applied_seq, row.through_seq)
                behind += active is not None and key[:2] > (active.turn, active.key)
            state_seq = thread.state_of[1] if active is not None and thread.state_of[0] == active.key else 0
            return StoredThread(
                thread_id=thread_id,
                title=thread.title,
                revision=thread.revision,
                messages=messages,
                state=from_json(thread.state),
                archived=thread.is_archived,
                active_run=None
                if active is None
                else ActiveRun(
                    key=active.key,
                    run_id=active.run_id,
                    applied_seq=max(applied_seq, state_seq),
                    state_seq=state_seq,
                    behind=behind,
                ),
                interrupts=from_json(thread.interrupts) if thread.waiting is not None else [],
                superseded=[
                    ReplacedMessages(replaced_by=thread.runs[key].run_id, messages=replaced[key])
                    for key in sorted(replaced, reverse=True)
                ]
                if superseded
                else [],
            )

    def holds(self, *, owner: Owner, thread_id: str, run: int) -> bool:
        with self._kept.lock:
            thread = self._kept.threads.get((owner, self.scope, thread_id))
            return thread is not None and run in thread.runs

    def current_run(self, *, owner: Owner, thread_id: str) -> int | None:
        with self._kept.lock:
            newest = self._thread(owner, thread_id).newest
            return newest.key if newest else None

    def next_run(self, *, owner: Owner, thread_id: str, after: int) -> ThreadRun | None:
        with self._kept.lock:
            thread = self._thread(owner, thread_id)
            key = min((key for key in thread.runs if key > after), default=None)
            if key is None:
                return None
            return ThreadRun(key, any(message.superseded_by == key for message in thread.messages.values()))

    def progress(self, threads: Collection[ThreadName]) -> Mapping[ThreadName, int]:
        with self._kept.lock:
            found = {(owner, id_): self._kept.threads.get((owner, self.scope, id_)) for owner, id_ in threads}
            return {name: max(thread.runs, default=0) for name, thread in found.items() if thread is not None}

    def titles(self, *, owner: Owner, thread_ids: Collection[str]) -> Mapping[str, str]:
        with self._kept.lock:
            threads = [self._kept.threads.get((owner, self.scope, thread_id)) for thread_id in thread_ids]
            return {thread.name[2]: thread.title or thread.preview or "" for thread in threads if thread is not None}

    def page(self, *, owner: Owner, query: ThreadQuery) -> ThreadPage:
        before = None if query.cursor is None else _order(query.cursor)
        text = (query.text or "").casefold()
        with self._kept.lock:
            found = [
                thread
                for name, thread in self._kept.threads.items()
                if name[:2] == (owner, self.scope)
                and thread.is_archived == query.archived
                and (query.status is None or thread.is_at(query.status))
                and (before is None or thread.order < before)
                and text in f"{thread.title}\n{thread.preview or ''}".casefold()
            ]
            found.sort(key=lambda thread: thread.order, reverse=True)
            page = found[: query.limit or None]
            rows = [_row(thread) for thread in page]
            return ThreadPage(rows, _cursor(page[-1].order) if len(found) > len(page) else None)

    def rename(self, *, owner: Owner, thread_id: str, title: str, revision: int | None = None) -> None:
        with self._kept.lock:
            thread = self._thread(owner, thread_id, revision)
            thread.title, thread.is_titled_by_person = whole_title(title), True

    def entitle(self, *, owner: Owner, thread_id: str, title: str) -> None:
        with self._kept.lock:
            thread = self._thread(owner, thread_id)
            if not thread.is_titled_by_person:
                thread.title = cut_title(title)

    def archive(self, *, owner: Owner, thread_id: str, archived: bool, revision: int | None = None) -> None:
        with self._kept.lock:
            self._thread(owner, thread_id, revision).is_archived = archived

    def delete(self, *, owner: Owner, thread_id: str, revision: int | None = None) -> list[int]:
        """Delete a thread and return the keys of its live runs; the run store forgets the runs by itself."""
        with self._kept.lock:
            thread = self._thread(owner, thread_id, revision)
            self._kept.forget(thread)
            return [run.key for run in thread.live]

    def accept(self, start: TurnStart, *, run: int, run_id: str) -> int:
        kept = self._kept
        with kept.lock:
            name = (start.owner, self.scope, start.thread_id)
            thread = kept.threads.get(name)
            if (None if thread is None else thread.revision) != start.revision:
                raise ThreadChanged
            now = datetime.now(UTC)
            if thread is None:
                thread = kept.threads[name] = KeptThread(name, next(kept.numbers), now)
            if start.follows is not None:
                thread.go_back_to(start.follows, run)
            elif start.supersede_from is not None:
                thread.replace_behind(start.supersede_from, run)
            if start.continues is None:
                turn = thread.next_turn
                thread.next_turn += 1
            else:
                turn = thread.runs[start.continues].turn
            thread.runs[run] = KeptRun(run, run_id, turn)
            kept.of_run[run] = thread
            for number, messages in ((IMPORTED, start.imported), (turn, start.messages)):
                for place, message in enumerate(messages):
                    thread.put((number, run, place), message, through_seq=1)
            if thread.preview is None:
                thread.preview = preview([*start.imported, *start.messages])
            thread.waiting = None
            thread.revision += 1
            thread.updated_at = now
            kept.forget_idle()
            return thread.revision

    def ground(self, *, run: int) -> TurnGround:
        with self._kept.lock:
            thread = self._of_run(run)
            ground = thread.branch().ground(run, thread.runs[run].turn)
            bodies = [thread.messages[key].body for key in thread.keys]
            return TurnGround(
                previous=ground.previous,
                previous_first=ground.previous_first,
                kept=None if ground.kept is None else [from_json(bodies[place]) for place in ground.kept],
                first_of_turn=ground.first_of_turn,
                question=[from_json(bodies[place]) for place in ground.question],
                state=from_json(thread.state),
            )

    def transcript(self, *, run: int) -> "Sequence[JsonObject]":
        return self.so_far(run=run).messages

    def so_far(self, *, run: int) -> ThreadSoFar:
        with self._kept.lock:
            thread = self._of_run(run)
            end = (thread.runs[run].turn, run)
            until = [(key, thread.messages[key]) for key in thread.keys if key[:2] <= end]
            rows = [(key, row) for key, row in until if row.superseded_by is None or row.superseded_by > run]
            state_seq = thread.state_of[1] if thread.state_of[0] == run else 0
            return ThreadSoFar(
                messages=[from_json(row.body) for _, row in rows],
                applied_seq=max([1, state_seq, *(row.through_seq for key, row in rows if key[1] == run)]),
                state=from_json(thread.state),
                state_seq=state_seq,
            )

    def save(self, saved: TurnSave) -> None:
        with self._kept.lock:
            thread = self._kept.of_run.get(saved.run)
            if thread is None:
                return
            run = thread.runs[saved.run]
            for place, message in saved.messages:
                key = (run.turn, run.key, place)
                thread.put(key, message, through_seq=saved.through_seq, superseded_by=run.superseded_by)
            if saved.has_state and run.superseded_by is None:
                thread.state = to_json(wire_form(saved.state))
                thread.state_of = (run.key, saved.through_seq)

    def end(self, saved: TurnSave, ending: "Ending") -> int:
        with self._kept.lock:
            self.save(saved)
            thread = self._kept.of_run.get(saved.run)
            if thread is None:
                return 0
            run = thread.runs[saved.run]
            run.status = ending.status
            if run.superseded_by is None and (ending.interrupts or ending.pending_calls):
                thread.waiting = run.key
                thread.calls = list(ending.pending_calls)
                thread.interrupts = to_json(wire_form(list(ending.interrupts)))
            thread.revision += 1
            thread.updated_at = datetime.now(UTC)
            return thread.revision

    def end_wait(self, *, run: int) -> None:
        with self._kept.lock:
            thread = self._kept.of_run.get(run)
            if thread is not None and thread.waiting == run:
                thread.waiting = None

    def _thread(self, owner: Owner, thread_id: str, revision: int | None = None) -> KeptThread:
        thread = self._kept.threads.get((owner, self.scope, thread_id))
        if thread is None:
            raise ThreadNotFound
        if revision not in (None, thread.revision):
            raise ThreadChanged
        return thread

    def _of_run(self, run: int) -> KeptThread:
        thread = self._kept.of_run.get(run)
        if thread is None:
            raise ThreadNotFound
        return thread


def _row(thread: KeptThread) -> ThreadRow:
    active, newest = thread.active, thread.newest
    return ThreadRow(
        thread_id=thread.name[2],
        title=thread.title,
        updated_at=thread.updated_at,
        preview=thread.preview,
        revision=thread.revision,
        turns=len({key[0] for key, _ in thread.current()} - {IMPORTED}),
        archived=thread.is_archived,
        active_run=active.run_id if active else None,
        current_run=newest.key if newest else None,
    )


def _cursor(order: Order) -> str:
    return f"{order[0].isoformat()} {order[1]}"


def _order(cursor: str) -> Order:
    try:
        changed, number = cursor.rsplit(" ", 1)
        return datetime.fromisoformat(changed), int(number)
    except (ValueError, TypeError):
        raise InvalidInput("the cursor is not one that this server gave for this list") from None
