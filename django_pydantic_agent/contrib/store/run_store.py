"""Runs and their logs in the project's database."""

import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Exists, OuterRef, Q

from django_pydantic_agent.contrib.store import approvals, commits
from django_pydantic_agent.contrib.store.cursors import Cursors
from django_pydantic_agent.contrib.store.effects import effects_of
from django_pydantic_agent.contrib.store.erasure import erase_if_deleted
from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.contrib.store.models import Interrupt, Run, RunFrames
from django_pydantic_agent.contrib.store.outages import despite_deadlocks, insistently
from django_pydantic_agent.contrib.store.packets import within_packets
from django_pydantic_agent.contrib.store.querysets import RunQuerySet, digests, idempotency_digest
from django_pydantic_agent.contrib.store.recursive import fetch_recursive
from django_pydantic_agent.contrib.store.rows import insert
from django_pydantic_agent.contrib.store.run_log import FRAME_COLUMNS, RunLog, stretch_rows
from django_pydantic_agent.exceptions import (
    IdempotencyKeyTaken,
    RunIdTaken,
    RunNotFound,
    StoreUnavailable,
    UnstorableWrite,
)
from django_pydantic_agent.log.frames import storable, storable_value
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import LIVE, Decision, RunStatus
from django_pydantic_agent.stores.approvals import StoredInterrupt
from django_pydantic_agent.stores.base import NewRun, RunPage, RunQuery, StoredRun, UnresolvedCall
from django_pydantic_agent.stores.writes import KeptFold, RunWrite

if TYPE_CHECKING:
    from django_pydantic_agent.contrib.store.leases import DatabaseRunLeases
    from django_pydantic_agent.contrib.store.run_history import DatabaseRunHistory
    from django_pydantic_agent.stores.conversations import ConversationStore

_SUMMARY = (
    "pk",
    "owner",
    "scope",
    "run_id",
    "thread_id",
    "server",
    "status",
    "body_digest",
    "content_digest",
    "created_at",
    "finished_at",
    "parent_run_id",
    "epoch",
    "attempt",
    "last_seq",
    "error",
    "interrupts",
    "pending_calls",
    "preview",
    "is_continuable",
    "unresolved_effects",
    "parent_unresolved_effects",
    "cancel_after",
)


class DatabaseRunStore:
    """The `RunStore` over this app's models, on the database that the project's routers name for them."""

    durable = True

    @property
    def leases(self) -> "DatabaseRunLeases | None":
        if getattr(self._connection, "is_in_memory_db", bool)():
            return None
        # Not imported above, because leases are told by the same words as threads.
        from django_pydantic_agent.contrib.store.leases import DatabaseRunLeases

        return DatabaseRunLeases(self)

    def create(self, new: NewRun, *, on_commit: Callable[[StoredRun, bytes], None]) -> StoredRun:
        return despite_deadlocks(lambda: self._create(new, on_commit), using=self._alias)

    def _create(self, new: NewRun, on_commit: Callable[[StoredRun, bytes], None]) -> StoredRun:
        if new.owner is None:
            raise ValueError("a run without an owner is not kept in the database")
        alias = self._alias
        now = datetime.now(UTC)
        parent = new.parent
        row = new_row(
            new.owner,
            new.scope,
            run_id=new.run_id,
            thread_id=new.thread_id,
            parent=parent.key if parent else None,
            parent_run_id=parent.run_id if parent else None,
            server=new.server,
            status=RunStatus.QUEUED,
            input=new.input,
            body_digest=new.digest,
            protocol=storable(new.protocol),
            message_ids=storable_value(list(new.message_ids)),
            last_seq=1,
            request=storable_value(new.request),
            cancel_after=new.cancel_after,
            created_at=now,
            **_idempotency_columns(new),
        )
        try:
            with transaction.atomic(using=alias), within_packets(alias):
                # One by one, by key, because that is the order in which every transaction locks runs.
                for key in sorted(new.stops):
                    self._runs.filter(pk=key, status__in=LIVE).update(cancel_requested=True)
                row.save(using=alias, force_insert=True)
                approvals.decide(new, row.pk, using=alias)
                first_frame = new.first_frame(new.accept_turn(row.pk))
                insert(connections[alias], RunFrames, FRAME_COLUMNS, stretch_rows(row.pk, 1, [first_frame]))
                run = StoredRun(
                    key=row.pk,
                    owner=new.owner,
                    scope=new.scope,
                    run_id=new.run_id,
                    thread_id=new.thread_id,
                    server=new.server,
                    status=RunStatus.QUEUED,
                    digest=new.digest,
                    started_at=now,
                    content_digest=row.content_digest,
                    parent_run_id=parent.run_id if parent else None,
                    cancel_after=new.cancel_after,
                )
                transaction.on_commit(lambda: on_commit(run, first_frame), using=alias, robust=True)
                transaction.on_commit(partial(erase_if_deleted, new.user, new.owner), using=alias, robust=True)
        except IntegrityError:
            taken = self.get(owner=new.owner, scope=new.scope, run_id=new.run_id)
            if taken is not None:
                raise RunIdTaken(taken) from None
            if row.idempotency_digest and self._runs.filter(idempotency_digest=row.idempotency_digest).exists():
                raise IdempotencyKeyTaken from None
            if self._runs.for_owner(new.owner, new.scope, run=new.run_id).exists():
                raise RunIdTaken(None) from None
            if parent is not None and not self._runs.filter(pk=parent.key).exists():
                raise RunNotFound from None
            raise
        return run

    def get(self, *, owner: Owner | None, scope: str, run_id: str) -> StoredRun | None:
        if owner is None:
            return None
        return next(self._stored(self._runs.for_owner(owner, scope, run=run_id).listed(), owner), None)

    def by_key(self, key: int, *, owner: Owner | None) -> StoredRun | None:
        if owner is None:
            return None
        return next(self._stored(self._runs.of_owner(owner).filter(pk=key), owner), None)

    def by_keys(self, keys: Collection[int], *, owner: Owner | None) -> Mapping[int, StoredRun]:
        if owner is None or not keys:
            return {}
        return {run.key: run for run in self._stored(self._runs.of_owner(owner).filter(pk__in=keys), owner)}

    def by_idempotency_key(self, key: str, *, owner: Owner | None, scope: str, server: str) -> StoredRun | None:
        if owner is None:
            return None
        runs = self._runs.filter(idempotency_digest=idempotency_digest(owner, scope, server, key))
        return next(self._stored(runs, owner), None)

    def page(self, *, owner: Owner | None, scope: str, query: RunQuery) -> RunPage:
        if owner is None:
            return RunPage([])
        runs = self._runs.for_owner(owner, scope).listed()
        if query.thread_id is not None:
            runs = runs.for_owner(owner, scope, thread=query.thread_id)
        if query.status is not None:
            runs = runs.filter(status=query.status)
        if query.text:
            runs = runs.matching(storable(query.text))
        cursors = Cursors("run", owner, scope)
        if query.cursor is not None:
            runs = runs.filter(pk__lt=cursors.numbers(query.cursor)[0])
        if not query.limit:
            return RunPage(list(self._stored(runs, owner)))
        rows = list(self._stored(runs[: query.limit + 1], owner))
        page = rows[: query.limit]
        return RunPage(page, cursors.text(page[-1].key) if len(rows) > len(page) else None)

    def input(self, key: int) -> bytes:
        return bytes(self._column(key, "input"))

    def request(self, key: int) -> dict[str, Any] | None:
        request: dict[str, Any] | None = self._column(key, "request")
        return request

    def folded(self, key: int) -> KeptFold:
        row = self._runs.filter(pk=key).values_list("folded", "last_seq").first()
        if row is None:
            raise RunNotFound
        data, last_seq = bytes(row[0]), row[1]
        return KeptFold(frames=zlib.decompress(data).split(b"\n") if data else (), last_seq=last_seq)

    def keep_fold(self, key: int, frames: Sequence[bytes]) -> None:
        with within_packets(self._alias):
            self._runs.filter(pk=key).exclude(status__in=LIVE).update(folded=zlib.compress(b"\n".join(frames)))

    def history(self, key: int) -> "DatabaseRunHistory":
        # Not imported above: the checks of a project load no pydantic-ai.
        from django_pydantic_agent.contrib.store.run_history import DatabaseRunHistory

        return DatabaseRunHistory(key)

    def boundary_seq(self, key: int) -> int:
        return self._runs.filter(pk=key).values_list("boundary_seq", flat=True).first() or 0

    def ahead(self, key: int) -> StoredRun | None:
        own = self._runs.filter(pk=key).values_list("in_thread", "turn").first()
        if own is None:
            return None
        thread, turn = own
        # An answer comes before the turns that are queued behind the question.
        before = Q(turn__lt=turn) | Q(turn=turn, pk__lt=key) | Q(pk__lt=key, status=RunStatus.RUNNING)
        asks = Q(status=RunStatus.INTERRUPTED) & Exists(Interrupt.objects.undecided().filter(run=OuterRef("pk")))
        ahead = self._runs.filter(before, Q(status__in=LIVE) | asks, in_thread=thread).order_by("-turn", "-pk")
        owner = ahead.values_list("owner", flat=True).first()
        return None if owner is None else next(self._stored(ahead[:1], Owner(owner)), None)

    def asked_by(
        self, interrupt_id: str, *, owner: Owner | None, scope: str, server: str, thread_id: str
    ) -> StoredRun | None:
        if owner is None:
            return None
        runs = self._runs.for_owner(owner, scope, thread=thread_id)
        asking = self._stored(runs.filter(asked__interrupt_digest=digest(interrupt_id)), owner)
        # Not by the database, whose collation may take two names for one.
        return next((run for run in asking if run.server == server), None)

    def interrupts(self, key: int) -> Sequence[StoredInterrupt]:
        return approvals.read(using=self._alias, run=key)

    def answers(self, key: int) -> Sequence[StoredInterrupt]:
        return [found for found in approvals.read(using=self._alias, decided_by_run=key) if found.answer is not None]

    def undecided(self, *, owner: Owner | None, scope: str, server: str, thread_id: str) -> Sequence[int]:
        if owner is None:
            return []
        undecided = Interrupt.objects.undecided().filter(run=OuterRef("pk"))
        runs = self._runs.for_owner(owner, scope, thread=thread_id).filter(Exists(undecided))
        return [key for key, asked_at in runs.values_list("pk", "server") if asked_at == server]

    def give_up(self, key: int, decision: Decision, *, conversation: "ConversationStore | None") -> Sequence[str]:
        with transaction.atomic(using=self._alias):
            given_up = approvals.give_up([key], decision, using=self._alias)
            if conversation is not None:
                conversation.end_wait(run=key)
        return given_up

    def lineage_message_ids(self, key: int) -> set[str]:
        table = self._connection.ops.quote_name(Run._meta.db_table)
        rows = fetch_recursive(
            self._connection,
            f"""
            WITH RECURSIVE lineage(id, parent_id) AS (
                SELECT id, parent_id FROM {table} WHERE id = %s
                UNION ALL
                SELECT r.id, r.parent_id FROM {table} r JOIN lineage ON r.id = lineage.parent_id
            )
            SELECT r.message_ids, r.output_message_ids FROM {table} r JOIN lineage ON r.id = lineage.id
            """,  # noqa: S608
            [key],
        )
        return {message_id for row in rows for ids in row for message_id in json.loads(ids)}

    def read_frames(self, key: int, *, after: int, max_bytes: int) -> list[bytes]:
        return RunLog(run=key, using=self._alias).read(after=after, max_bytes=max_bytes)

    def first_seq(self, key: int) -> int:
        return RunLog(run=key, using=self._alias).first_seq

    def progress(self, keys: Collection[int]) -> dict[int, tuple[int, RunStatus]]:
        rows = self._runs.filter(pk__in=keys).values_list("pk", "last_seq", "status")
        return {pk: (last_seq, RunStatus(status)) for pk, last_seq, status in rows}

    def commit(self, writes: Sequence[RunWrite]) -> list[Exception | None]:
        try:
            return insistently(lambda: commits.commit(writes, using=self._alias), using=self._alias)
        except StoreUnavailable:
            raise
        # A conversation store, which may be anyone's, may raise anything.
        except Exception as error:
            if len(writes) == 1:
                refusal = UnstorableWrite("what the run wrote is refused")
                refusal.__cause__ = error
                return [refusal]
        return [result for write in writes for result in self.commit([write])]

    def unresolved_calls(self, key: int) -> Sequence[UnresolvedCall]:
        effects = effects_of(key, using=self._alias).unresolved()
        return [UnresolvedCall(*row) for row in effects.values_list("tool_call_id", "tool_name", "reason")]

    def tidy(self, key: int) -> None:
        if self._runs.filter(pk=key, status__in=LIVE).exists():
            return
        RunLog(run=key, using=self._alias).merge()

    @property
    def _alias(self) -> str:
        # Reads too: a replica that lags would not have the run that was just written.
        return router.db_for_write(Run)

    @property
    def _connection(self) -> BaseDatabaseWrapper:
        return connections[self._alias]

    @property
    def _runs(self) -> RunQuerySet:
        return Run.objects.using(self._alias)

    def _column(self, key: int, name: str) -> Any:
        try:
            return self._runs.values_list(name, flat=True).get(pk=key)
        except Run.DoesNotExist:
            raise RunNotFound from None

    def _stored(self, runs: RunQuerySet, owner: Owner) -> Iterator[StoredRun]:
        rows = list(runs.with_unresolved_effects().values(*_SUMMARY))
        asking = [row["pk"] for row in rows if row["interrupts"]]
        open_ids = approvals.open_ids(asking, using=self._alias) if asking else ()
        for row in rows:
            row["key"] = row.pop("pk")
            row["digest"] = row.pop("body_digest")
            row["started_at"] = row.pop("created_at")
            row["continuable"] = row.pop("is_continuable")
            row["status"] = RunStatus(row["status"])
            row["interrupts"] = [asked for asked in row["interrupts"] if (row["key"], asked["id"]) in open_ids]
            yield StoredRun(**{**row, "owner": owner})


def new_row(
    owner: Owner,
    scope: str,
    *,
    run_id: str,
    thread_id: str = "",
    parent: int | None = None,
    parent_run_id: str | None = None,
    **columns: Any,
) -> Run:
    """Return an unsaved run under its ids, whatever characters they hold."""
    return Run(
        owner=storable(owner.key),
        scope=storable(scope),
        run_id=storable(run_id),
        thread_id=storable(thread_id),
        owner_digest=digest(owner.key),
        partition_digest=digest(owner.key, scope),
        parent_id=parent,
        parent_run_id=None if parent_run_id is None else storable(parent_run_id),
        **digests(owner, scope, run=run_id, thread=thread_id, parent=parent_run_id),
        **columns,
    )


def _idempotency_columns(new: NewRun) -> dict[str, str]:
    if new.idempotency is None or new.owner is None:
        return {}
    key = new.idempotency.key
    return {
        "idempotency_key": key,
        "idempotency_digest": idempotency_digest(new.owner, new.scope, new.server, key),
        "content_digest": new.idempotency.content,
    }
