"""Conversations in the project's database."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db import router, transaction
from django.db.models import Max, Q, QuerySet
from pydantic_core import from_json

from django_pydantic_agent.contrib.store import turns
from django_pydantic_agent.contrib.store.cursors import Cursors
from django_pydantic_agent.contrib.store.deletion import delete_thread
from django_pydantic_agent.contrib.store.fields import from_microseconds, to_microseconds
from django_pydantic_agent.contrib.store.models import Run, Thread, ThreadMessage
from django_pydantic_agent.contrib.store.querysets import RunQuerySet, ThreadQuerySet, digests
from django_pydantic_agent.exceptions import ThreadChanged, ThreadNotFound
from django_pydantic_agent.log.frames import JsonObject, storable
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
from django_pydantic_agent.threads.branch import Branch, BranchMessage, BranchRun
from django_pydantic_agent.threads.titles import cut_title, whole_title

if TYPE_CHECKING:
    from django_pydantic_agent.stores.writes import Ending
    from django_pydantic_agent.threads.posture import ThreadOutline

ATTEMPTS = 3
"""How often a thread is read without holding up those who write to it."""

Key = tuple[int, int, int]


class DefaultConversationStore(ConversationStore):
    """The `ConversationStore` over this app's models, on the database that the project's routers name for them.

    A request without a durable identity has no owner, and nothing of it is kept. With `allow_anonymous`, an anonymous
    request owns what its session's bucket owns.
    """

    def __init__(self, allow_anonymous: bool = False) -> None:
        self.allow_anonymous = allow_anonymous
        self.scope = ""

    def scoped(self, scope: str) -> "DefaultConversationStore":
        """Return the store that holds the threads of `scope` only."""
        if self.scope:
            raise ValueError(f"the store is scoped to {self.scope!r} already")
        store = copy(self)
        store.scope = scope
        return store

    def owner(self, request: Any) -> Owner | None:
        return resolve_owner(request, allow_anonymous=self.allow_anonymous)

    def view(self, *, owner: Owner, thread_id: str) -> "ThreadOutline | None":
        # The thread first: what is read of it later is then newer than its revision, and is refused with it.
        columns = ("pk", "revision", "waiting_run", "open_calls", "open_interrupts")
        row = self._thread(owner, thread_id).values_list(*columns).first()
        if row is None:
            return None
        key, revision, waiting, calls, interrupts = row
        branch, _ = self._branch(key)
        return branch.view(revision=revision, waiting=waiting, calls=calls, interrupts=interrupts)

    def read(self, *, owner: Owner, thread_id: str, superseded: bool = False) -> StoredThread:
        """Return a thread as it was at one moment, its messages and state through the same seq of its active run."""
        for _ in range(ATTEMPTS):
            if (thread := self._read(owner, thread_id, superseded)) is not None:
                return thread
        with transaction.atomic(using=self._alias):
            self._thread(owner, thread_id).select_for_update().values("pk").first()
            thread = self._read(owner, thread_id, superseded)
        if thread is None:
            raise RuntimeError("a thread has changed while it was locked")
        return thread

    def holds(self, *, owner: Owner, thread_id: str, run: int) -> bool:
        return self._runs.filter(pk=run, in_thread__in=self._thread(owner, thread_id).values("pk")).exists()

    def current_run(self, *, owner: Owner, thread_id: str) -> int | None:
        runs = self._runs.filter(in_thread=self._key(owner, thread_id), superseded_by=None)
        active = runs.live().values_list("pk", flat=True).first()
        return runs.order_by("-pk").values_list("pk", flat=True).first() if active is None else active

    def next_run(self, *, owner: Owner, thread_id: str, after: int) -> ThreadRun | None:
        thread = self._key(owner, thread_id)
        key = self._runs.filter(in_thread=thread, pk__gt=after).order_by("pk").values_list("pk", flat=True).first()
        return None if key is None else ThreadRun(key, self._all(thread).filter(superseded_by=key).exists())

    def progress(self, threads: Collection[ThreadName]) -> Mapping[ThreadName, int]:
        names = {digests(owner, self.scope, thread=id_)["thread_digest"]: (owner, id_) for owner, id_ in threads}
        rows = self._threads.filter(thread_digest__in=names).order_by()
        newest = rows.annotate(newest=Max("runs")).values_list("thread_digest", "newest")
        return {names[digest]: run or 0 for digest, run in newest}

    def titles(self, *, owner: Owner, thread_ids: Collection[str]) -> Mapping[str, str]:
        ids = {digests(owner, self.scope, thread=thread_id)["thread_digest"]: thread_id for thread_id in thread_ids}
        rows = self._threads.filter(thread_digest__in=ids).values_list("thread_digest", "title", "preview")
        return {ids[digest]: title or preview or "" for digest, title, preview in rows}

    def page(self, *, owner: Owner, query: ThreadQuery) -> ThreadPage:
        cursors = Cursors("thread", owner, self.scope)
        threads = self._threads.for_owner(owner, self.scope).listed(archived=query.archived).with_runs()
        if query.status is not None:
            threads = threads.at(query.status)
        if query.text:
            threads = threads.matching(storable(query.text))
        if query.cursor is not None:
            microseconds, key = cursors.numbers(query.cursor)
            at = from_microseconds(microseconds)
            threads = threads.filter(Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=key))
        names = ("thread_id", "title", "updated_at", "preview", "revision", "turns", "is_archived")
        runs = ("active_run", "current_run", "branch_of")
        rows = list(threads.values_list("pk", *names, *runs)[: query.limit + 1 if query.limit else None])
        page = rows[: query.limit or None]
        shown = [
            ThreadRow(
                thread_id=thread_id,
                title=title,
                updated_at=updated_at,
                preview=preview,
                revision=revision,
                turns=number,
                archived=archived,
                active_run=active,
                current_run=current,
                branch_of=parent,
            )
            for _, thread_id, title, updated_at, preview, revision, number, archived, active, current, parent in page
        ]
        has_more = len(rows) > len(page)
        return ThreadPage(shown, cursors.text(to_microseconds(page[-1][3]), page[-1][0]) if has_more else None)

    def rename(self, *, owner: Owner, thread_id: str, title: str, revision: int | None = None) -> None:
        self._update(owner, thread_id, revision, title=whole_title(title), is_titled_by_person=True)

    def entitle(self, *, owner: Owner, thread_id: str, title: str) -> None:
        threads = self._thread(owner, thread_id)
        if not threads.filter(is_titled_by_person=False).update(title=cut_title(title)) and not threads.exists():
            raise ThreadNotFound

    def archive(self, *, owner: Owner, thread_id: str, archived: bool, revision: int | None = None) -> None:
        self._update(owner, thread_id, revision, is_archived=archived)

    def delete(self, *, owner: Owner, thread_id: str, revision: int | None = None) -> list[int]:
        return delete_thread(self._thread(owner, thread_id), revision=revision, using=self._alias)

    def accept(self, start: TurnStart, *, run: int, run_id: str) -> int:
        return turns.accept(start, scope=self.scope, run=run, using=self._alias)

    def ground(self, *, run: int) -> TurnGround:
        columns = ("in_thread", "turn", "in_thread__state")
        row = self._runs.filter(pk=run).exclude(in_thread=None).values_list(*columns).first()
        if row is None:
            raise ThreadNotFound
        thread, turn, state = row
        branch, keys = self._branch(thread)
        ground = branch.ground(run, turn)
        places = [*(ground.kept or ()), *ground.question]
        content: dict[Key, JsonObject] = {}
        if places:
            rows = self._current(thread).filter(turn__in={keys[place][0] for place in places})
            content = {key: message for key, message, _ in _messages(rows)}
        return TurnGround(
            previous=ground.previous,
            previous_first=ground.previous_first,
            kept=None if ground.kept is None else [content[keys[place]] for place in ground.kept],
            first_of_turn=ground.first_of_turn,
            question=[content[keys[place]] for place in ground.question],
            state=_state(state),
        )

    def transcript(self, *, run: int) -> Sequence[JsonObject]:
        return self.so_far(run=run).messages

    def so_far(self, *, run: int) -> ThreadSoFar:
        for _ in range(ATTEMPTS):
            if (so_far := self._so_far(run)) is not None:
                return so_far
        with transaction.atomic(using=self._alias):
            self._threads.filter(runs=run).select_for_update().values("pk").first()
            so_far = self._so_far(run)
        if so_far is None:
            raise RuntimeError("a thread has changed while it was locked")
        return so_far

    def save(self, saved: TurnSave) -> None:
        turns.save(saved, using=self._alias)

    def end(self, saved: TurnSave, ending: "Ending") -> int:
        return turns.end(saved, ending, using=self._alias)

    def end_wait(self, *, run: int) -> None:
        self._threads.filter(waiting_run=run).update(waiting_run=None)

    @property
    def _alias(self) -> str:
        # Reads too: a replica that lags would not have the turn that was just written.
        return router.db_for_write(Thread)

    @property
    def _threads(self) -> ThreadQuerySet:
        return Thread.objects.using(self._alias)

    @property
    def _runs(self) -> RunQuerySet:
        return Run.objects.using(self._alias)

    def _thread(self, owner: Owner, thread_id: str) -> ThreadQuerySet:
        return self._threads.for_owner(owner, self.scope, thread=thread_id)

    def _key(self, owner: Owner, thread_id: str) -> int:
        key = self._thread(owner, thread_id).values_list("pk", flat=True).first()
        if key is None:
            raise ThreadNotFound
        return key

    def _update(self, owner: Owner, thread_id: str, revision: int | None, **columns: Any) -> None:
        threads = self._thread(owner, thread_id)
        if (threads if revision is None else threads.filter(revision=revision)).update(**columns):
            return
        if revision is not None and threads.exists():
            raise ThreadChanged
        raise ThreadNotFound

    def _all(self, thread: int) -> "QuerySet[ThreadMessage]":
        messages = ThreadMessage.objects.using(self._alias).filter(thread=thread)
        return messages.order_by("turn", "run", "place", "piece")

    def _current(self, thread: int) -> "QuerySet[ThreadMessage]":
        return self._all(thread).filter(superseded_by=None)

    def _branch(self, thread: int) -> tuple[Branch, list[Key]]:
        """Return all messages of a thread without their content and, beside them, their keys."""
        columns = ("turn", "run", "place", "message_id", "role", "content_digest", "superseded_by")
        keys: list[Key] = []
        messages: list[BranchMessage] = []
        for turn, run, place, message_id, role, content, replaced_by in (
            self._all(thread).filter(piece=0).values_list(*columns)
        ):
            keys.append((turn, run, place))
            messages.append(
                BranchMessage(
                    id=message_id,
                    role=role,
                    turn=turn,
                    run=run,
                    digest=content,
                    is_superseded=replaced_by is not None,
                )
            )
        runs = self._runs.filter(in_thread=thread).values_list("pk", "turn", "status", "superseded_by")
        return Branch(
            messages,
            [
                BranchRun(key=key, turn=turn or 0, status=status, is_superseded=replaced_by is not None)
                for key, turn, status, replaced_by in runs
            ],
        ), keys

    def _read(self, owner: Owner, thread_id: str, superseded: bool) -> StoredThread | None:
        """Return a thread, None where somebody has written to it meanwhile."""
        threads = self._thread(owner, thread_id)
        row = threads.values(
            "pk",
            "title",
            "is_archived",
            "revision",
            "state",
            "state_run",
            "state_seq",
            "waiting_run",
            "open_interrupts",
        ).first()
        if row is None:
            raise ThreadNotFound
        runs = self._runs.filter(in_thread=row["pk"], superseded_by=None)
        active = runs.live().values_list("pk", "run_id", "turn").first()
        rows = self._all(row["pk"]) if superseded else self._current(row["pk"])
        seen = (row["revision"], row["state_run"], row["state_seq"])
        current: list[JsonObject] = []
        replaced: dict[int, list[JsonObject]] = {}
        state_seq = row["state_seq"] if active is not None and row["state_run"] == active[0] else 0
        applied_seq = max(state_seq, 1)
        behind = 0
        for (turn, run, _), message, about in _messages(rows):
            replaced_by, through_seq, *now = about
            if tuple(now) != seen:
                return None
            if replaced_by is not None:
                replaced.setdefault(replaced_by, []).append(message)
                continue
            current.append(message)
            if active is not None and run == active[0]:
                applied_seq = max(applied_seq, through_seq)
            behind += active is not None and (turn, run) > (active[2], active[0])
        return StoredThread(
            thread_id=thread_id,
            title=row["title"],
            revision=row["revision"],
            messages=current,
            state=_state(row["state"]),
            archived=row["is_archived"],
            active_run=None
            if active is None
            else ActiveRun(
                key=active[0], run_id=active[1], applied_seq=applied_seq, state_seq=state_seq, behind=behind
            ),
            interrupts=row["open_interrupts"] if row["waiting_run"] is not None else [],
            superseded=self._named(replaced),
        )

    def _so_far(self, run: int) -> ThreadSoFar | None:
        """Return the branch of a run, None where somebody has written to the thread meanwhile."""
        about = ("revision", "state_run", "state_seq", "state")
        columns = ("in_thread", "turn", *(f"in_thread__{name}" for name in about))
        row = self._runs.filter(pk=run).exclude(in_thread=None).values_list(*columns).first()
        if row is None:
            raise ThreadNotFound
        thread, turn, *seen, state = row
        applied_seq = state_seq = seen[2] if seen[1] == run else 0
        until = Q(turn__lt=turn) | Q(turn=turn, run__lte=run)
        messages: list[JsonObject] = []
        for key, message, (_, through_seq, *now) in _messages(
            self._all(thread).filter(until).exclude(superseded_by__lte=run)
        ):
            if now != seen:
                return None
            messages.append(message)
            if key[1] == run:
                applied_seq = max(applied_seq, through_seq)
        return ThreadSoFar(messages=messages, applied_seq=max(applied_seq, 1), state=_state(state), state_seq=state_seq)

    def _named(self, replaced: dict[int, list[JsonObject]]) -> list[ReplacedMessages]:
        """Return the messages by the ids of the runs that replaced them, the newest first."""
        if not replaced:
            return []
        names = dict(self._runs.filter(pk__in=replaced).values_list("pk", "run_id"))
        return [ReplacedMessages(replaced_by=names.get(key), messages=replaced[key]) for key in sorted(replaced)[::-1]]


def _messages(rows: "QuerySet[ThreadMessage]") -> Iterable[tuple[Key, JsonObject, tuple[Any, ...]]]:
    """Yield the key of each message, the message, and `superseded_by`, `through_seq` and what its thread was at."""
    about = ("superseded_by", "through_seq", "thread__revision", "thread__state_run", "thread__state_seq")
    columns = ("turn", "run", "place", "pieces", "body", *about)
    for key, parts in groupby(rows.values_list(*columns), key=itemgetter(0, 1, 2)):
        pieces = list(parts)
        # A message that has become shorter leaves pieces behind.
        body = b"".join(piece[4] for piece in pieces[: pieces[0][3]])
        yield key, from_json(body), pieces[0][5:]


def _state(state: bytes | memoryview) -> Any:
    return from_json(bytes(state)) if state else None
