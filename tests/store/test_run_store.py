"""Runs and their logs in the database."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.contrib.store.changes import EffectRecorded, EventAppended
from django_pydantic_agent.contrib.store.models import Run, RunFrames, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.records import effect_row, event_row
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore, new_row
from django_pydantic_agent.exceptions import (
    IdempotencyKeyTaken,
    InvalidInput,
    LeaseLost,
    RunIdTaken,
    RunNotFound,
    StoreUnavailable,
    UnstorableWrite,
)
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import Idempotency, RunQuery, StoredRun
from django_pydantic_agent.stores.conversations import TurnSave
from django_pydantic_agent.stores.writes import KeptFold, RunWrite
from django_pydantic_agent.testing.step_store import effect, event
from tests.store.factories import ending, new_run

pytestmark = pytest.mark.django_db(transaction=True)

ADA, BOB = Owner("user:1"), Owner("user:2")


@pytest.fixture
def store() -> DatabaseRunStore:
    return DatabaseRunStore()


def create(store: DatabaseRunStore, run_id: str = "run", owner: Owner = ADA, **fields: Any) -> StoredRun:
    return store.create(new_run(owner, run_id, **fields), on_commit=lambda *_: None)


def write(run: StoredRun, first_seq: int, *frames: bytes, **fields: Any) -> RunWrite:
    return RunWrite(key=run.key, epoch=run.epoch, first_seq=first_seq, frames=list(frames), **fields)


def appended(run: StoredRun, number: int, **fields: Any) -> EventAppended:
    return EventAppended(number=number, run=run.key, row=event_row(run.key, event(run.run_id, **fields)))


def asked_to_stop(*keys: int) -> list[bool]:
    return [Run.objects.values_list("cancel_requested", flat=True).get(pk=key) for key in keys]


def read(store: DatabaseRunStore, run: StoredRun, after: int = 0, max_bytes: int = 1_000_000) -> list[bytes]:
    return store.read_frames(run.key, after=after, max_bytes=max_bytes)


def in_threads(number: int, call: Any) -> list[Any]:
    """Return what `call` returns or raises in that many threads that start together."""
    results: list[Any] = [None] * number
    barrier = threading.Barrier(number)

    def work(index: int) -> None:
        barrier.wait()
        try:
            results[index] = call()
        except Exception as error:
            results[index] = error
        finally:
            release_connections()

    threads = [threading.Thread(target=work, args=[index]) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class TestCreate:
    def test_a_run_comes_back_as_it_was_created(self, store):
        parent = create(store, "parent")
        run = create(store, parent=parent, input=b"\x00\xff", message_ids=["a", "b"])
        assert store.get(owner=ADA, scope="", run_id="run") == run
        assert (run.status, run.last_seq, run.parent_run_id) == (RunStatus.QUEUED, 1, "parent")
        assert store.input(run.key) == b"\x00\xff"
        assert read(store, run) == [b'{"type":"RUN_STARTED"}']

    def test_it_tells_of_the_run_once_it_is_committed(self, store):
        told = []
        with transaction.atomic():
            run = store.create(new_run(ADA, "run"), on_commit=lambda *about: told.append(about))
            assert told == []
        assert told == [(run, b'{"type":"RUN_STARTED"}')]

    def test_it_tells_nothing_of_a_run_that_was_rolled_back(self, store):
        told = []
        with transaction.atomic():
            store.create(new_run(ADA, "run"), on_commit=lambda *about: told.append(about))
            transaction.set_rollback(True)
        assert told == []
        assert store.get(owner=ADA, scope="", run_id="run") is None

    def test_a_taken_run_id_is_refused_with_the_run_that_has_it(self, store):
        run = create(store)
        with pytest.raises(RunIdTaken) as refusal:
            create(store)
        assert refusal.value.run == run

    def test_what_a_run_stops_is_asked_to_stop_with_its_acceptance_or_not_at_all(self, store):
        live, ended = create(store, "live"), create(store, "ended")
        assert store.commit([write(ended, 2, begins=True, ending=ending())]) == [None]
        with pytest.raises(RunIdTaken):
            create(store, "ended", stops=[live.key])
        assert asked_to_stop(live.key, ended.key) == [False, False]
        create(store, stops=[ended.key, live.key])
        assert asked_to_stop(live.key, ended.key) == [True, False]

    def test_an_idempotency_key_is_that_of_one_run_in_its_owner_scope_and_server(self, store):
        key = Idempotency(key="k", content="c" * 64)
        first = create(store, "first", idempotency=key)
        assert first.content_digest == "c" * 64
        others = [
            create(store, "other", idempotency=Idempotency(key="K", content="")),
            create(store, "scoped", scope="mount", idempotency=key),
            create(store, "elsewhere", server="another", idempotency=key),
            create(store, "run", BOB, idempotency=key),
        ]
        with pytest.raises(IdempotencyKeyTaken):
            create(store, "second", idempotency=key)
        assert store.get(owner=ADA, scope="", run_id="second") is None
        found = store.by_idempotency_key("k", owner=ADA, scope="", server="server")
        assert found == first
        assert store.by_idempotency_key("k", owner=BOB, scope="", server="server") == others[-1]
        assert store.by_idempotency_key("k", owner=BOB, scope="mount", server="server") is None

    def test_one_of_many_simultaneous_runs_gets_the_idempotency_key(self, store):
        numbers = iter(range(8))
        key = Idempotency(key="k", content="c" * 64)
        results = in_threads(8, lambda: create(store, f"run{next(numbers)}", idempotency=key))
        assert sum(isinstance(result, StoredRun) for result in results) == 1
        assert sum(isinstance(result, IdempotencyKeyTaken) for result in results) == 7
        assert Run.objects.count() == 1

    def test_a_taken_run_id_leaves_the_transaction_around_it_usable(self, store):
        create(store)
        with transaction.atomic():
            with pytest.raises(RunIdTaken):
                create(store)
            other = create(store, "other")
        assert store.get(owner=ADA, scope="", run_id="other") == other

    def test_C22_of_ten_simultaneous_posts_one_creates_the_run(self, store):
        results = in_threads(10, lambda: create(store))
        (run,) = [result for result in results if isinstance(result, StoredRun)]
        refusals = [result for result in results if isinstance(result, RunIdTaken)]
        assert [refusal.run for refusal in refusals] == [run] * 9
        assert RunFrames.objects.count() == 1

    def test_C16_two_owners_with_one_run_id_never_meet(self, store):
        runs = [create(store, "run", owner) for owner in (ADA, BOB)]
        scoped = create(store, "run", scope="mount")
        assert len({run.key for run in [*runs, scoped]}) == 3
        for owner, scope, run in [(ADA, "", runs[0]), (BOB, "", runs[1]), (ADA, "mount", scoped)]:
            assert store.get(owner=owner, scope=scope, run_id="run") == run
            assert [row.key for row in store.page(owner=owner, scope=scope, query=RunQuery()).runs] == [run.key]
        assert store.get(owner=BOB, scope="mount", run_id="run") is None

    @pytest.mark.parametrize(
        "ids", [("abc", "ABC"), ("a", "a "), ("e", "é"), ("\N{GRINNING FACE}", "\N{UNICORN FACE}")]
    )
    def test_C10_ids_that_differ_in_case_are_two_runs(self, store, ids):
        for run_id in ids:
            create(store, run_id, thread_id=run_id)
        for run_id in ids:
            assert store.get(owner=ADA, scope="", run_id=run_id).run_id == run_id
            page = store.page(owner=ADA, scope="", query=RunQuery(thread_id=run_id))
            assert [run.run_id for run in page.runs] == [run_id]

    def test_ids_may_be_as_long_as_the_contract_allows(self, store):
        longest = "\N{GRINNING FACE}" * 256
        create(store, longest, thread_id=longest)
        assert store.get(owner=ADA, scope="", run_id=longest).thread_id == longest

    def test_C25_no_primary_key_is_a_bucket(self, store):
        create(store, owner=Owner("user:anon:bucket"))
        create(store, owner=Owner("user:" + "k" * 150))
        assert store.get(owner=Owner.of_bucket("bucket"), scope="", run_id="run") is None
        assert store.get(owner=Owner("user:" + "K" * 150), scope="", run_id="run") is None

    def test_a_run_without_an_owner_is_not_kept(self, store):
        with pytest.raises(ValueError, match="owner"):
            create(store, owner=None)
        assert store.get(owner=None, scope="", run_id="run") is None
        assert store.page(owner=None, scope="", query=RunQuery()).runs == []


class TestCommit:
    def test_frames_of_several_runs_are_written_by_one_statement(self, store):
        runs = [create(store, str(number)) for number in range(4)]
        with CaptureQueriesContext(connection) as queries:
            results = store.commit([write(run, 2, b"a", b"b", begins=True) for run in reversed(runs)])
        assert results == [None] * 4
        statements = [query["sql"].split()[0] for query in queries]
        assert statements.count("INSERT") == 1
        assert statements.count("UPDATE") == 4
        assert store.progress([run.key for run in runs]) == {run.key: (3, RunStatus.RUNNING) for run in runs}
        for run in runs:
            assert read(store, run, after=1) == [b"a", b"b"]

    @pytest.mark.parametrize("change", [{"epoch": 2}, {"first_seq": 3}, {"first_seq": 1}])
    def test_a_write_that_does_not_go_on_from_the_run_is_refused(self, store, change):
        run, other = create(store), create(store, "other")
        lost = write(run, 2, b"a", b"b", begins=True, ledger=[appended(run, 1)])
        for name, value in change.items():
            setattr(lost, name, value)
        results = store.commit([lost, write(other, 2, b"c")])
        assert isinstance(results[0], LeaseLost)
        assert results[1] is None
        assert store.progress([run.key]) == {run.key: (1, RunStatus.QUEUED)}
        assert len(read(store, run)) == 1
        assert not StepEvent.objects.exists()
        assert read(store, other, after=1) == [b"c"]

    def test_a_writer_whose_run_was_taken_over_is_refused(self, store):
        run = create(store)
        Run.objects.update(epoch=2)
        assert isinstance(store.commit([write(run, 2, b"a", begins=True)])[0], LeaseLost)
        assert len(read(store, run)) == 1

    def test_nothing_is_appended_to_a_run_that_is_gone(self, store):
        run = create(store)
        Run.objects.all().delete()
        assert isinstance(store.commit([write(run, 2, b"a")])[0], LeaseLost)

    def test_an_ended_run_does_not_end_again(self, store):
        run = create(store)
        assert store.commit([write(run, 2, begins=True, ending=ending())]) == [None]
        (refusal,) = store.commit([write(run, 3, ending=ending(RunStatus.FAILED))])
        assert isinstance(refusal, LeaseLost)
        assert store.progress([run.key]) == {run.key: (2, RunStatus.FINISHED)}

    def test_a_run_that_was_cancelled_before_it_began_does_not_begin(self, store):
        run = create(store)
        store.commit([write(run, 2, ending=ending(RunStatus.CANCELLED))])
        assert isinstance(store.commit([write(run, 3, b"b", begins=True)])[0], LeaseLost)

    def test_the_end_is_written_with_the_last_frame(self, store):
        run = create(store)
        end = ending(
            RunStatus.INTERRUPTED,
            error={"code": "x", "message": "a\0b"},
            interrupts=[{"id": "i", "amount": 2**60, "rate": float("nan")}],
            message_ids=["m"],
            usage={"input_tokens": 1},
            timing={"end": 0.5},
        )
        assert store.commit([write(run, 2, b"a", begins=True), write(run, 3, b"b", ending=end)]) == [None, None]
        ended = store.get(owner=ADA, scope="", run_id="run")
        assert (ended.status, ended.last_seq, ended.pending_interrupts) == (RunStatus.INTERRUPTED, 4, 1)
        assert read(store, run, after=1) == [b"a", b"b", b"end"]
        assert ended.error == {"code": "x", "message": "a\ufffdb"}
        assert ended.interrupts == [{"id": "i", "amount": 2**60, "rate": None}]
        assert run.started_at < ended.finished_at
        row = Run.objects.get()
        assert (row.usage, row.timing) == ({"input_tokens": 1}, {"end": 0.5})

    def test_a_repeated_write_changes_nothing(self, store):
        run = create(store)
        record = effect("run", "call")
        writes = [
            write(run, 2, b"a", b"b", begins=True, ledger=[appended(run, 1), appended(run, 2)]),
            write(
                run,
                4,
                ledger=[
                    appended(run, 3),
                    EffectRecorded(number=4, run=run.key, call="c", row=effect_row(run.key, record, {})),
                ],
            ),
            write(run, 4, b"c", ledger=[appended(run, 5)], ending=ending()),
        ]
        for item in writes:
            assert store.commit([item]) == [None]
            assert store.commit([item]) == [None]
        assert read(store, run, after=1) == [b"a", b"b", b"c", b"end"]
        assert StepEvent.objects.count() == 4
        assert ToolEffect.objects.count() == 1

    def test_a_write_without_its_refused_ledger_rows_goes_on(self, store):
        run = create(store)
        poisoned = write(run, 2, b"a", begins=True, ledger=[appended(run, 1, step=2**80)])
        assert isinstance(store.commit([poisoned])[0], UnstorableWrite)
        poisoned.ledger = []
        assert store.commit([poisoned]) == [None]
        assert store.commit([write(run, 3, b"b", ledger=[appended(run, 2)])]) == [None]

    def test_what_a_conversation_store_raises_refuses_the_write_of_its_run_and_no_other(self, store):
        class Broken:
            def save(self, saved: TurnSave) -> None:
                raise KeyError("thread")

        bad, good = create(store, "bad"), create(store, "good")
        broken = {"conversation": Broken(), "turns": [TurnSave(run=bad.key, through_seq=2, size=1)]}
        refusal, done = store.commit([write(bad, 2, b"a", **broken), write(good, 2, b"a")])
        assert isinstance(refusal, UnstorableWrite)
        assert done is None
        assert [read(store, run, after=1) for run in (bad, good)] == [[], [b"a"]]

    def test_an_uncertain_commit_is_found_out_about(self, store):
        run = create(store)
        pending = write(run, 2, b"a", begins=True, ledger=[appended(run, 1)])
        with commit_that_loses_its_answer(), pytest.raises(StoreUnavailable):
            store.commit([pending])
        assert store.commit([pending]) == [None]
        assert read(store, run, after=1) == [b"a"]
        assert StepEvent.objects.count() == 1

    def test_one_poisoned_write_leaves_the_others_alone(self, store):
        runs = [create(store, str(number)) for number in range(4)]
        writes = [write(run, 2, b"a", begins=True, ledger=[appended(run, 1)]) for run in runs]
        writes[1].ledger = [appended(runs[1], 1, step=2**80)]
        results = store.commit(writes)
        assert [type(result) for result in results] == [type(None), UnstorableWrite, type(None), type(None)]
        assert results[1].__cause__ is not None
        progress = store.progress([run.key for run in runs])
        assert [progress[run.key][0] for run in runs] == [2, 1, 2, 2]
        assert StepEvent.objects.count() == 3

    def test_a_frame_of_30_megabytes_is_kept_in_pieces(self, store):
        run, other = create(store), create(store, "other")
        large = b"x" * (30 * 1024 * 1024)
        assert store.commit([write(run, 2, b"a", large, b"b", begins=True), write(other, 2, b"c")]) == [None, None]
        assert read(store, run, after=1, max_bytes=1) == [b"a"]
        assert read(store, run, after=2, max_bytes=1) == [large]
        assert read(store, run, after=3) == [b"b"]
        assert max(len(data) for data in RunFrames.objects.values_list("data", flat=True)) <= 4 * 1024 * 1024
        assert read(store, other, after=1) == [b"c"]

    def test_it_writes_inside_a_transaction_of_the_caller(self, store):
        run = create(store)
        with transaction.atomic():
            poisoned = write(run, 2, b"a", begins=True, ledger=[appended(run, 1, step=2**80)])
            assert isinstance(store.commit([poisoned])[0], UnstorableWrite)
            assert store.commit([write(run, 2, b"a", begins=True)]) == [None]
        assert read(store, run, after=1) == [b"a"]

    @pytest.mark.postgres
    @pytest.mark.mariadb
    def test_a_lost_connection_to_a_database_that_answers_is_replaced(self, store):
        run = create(store)
        lose_connection()
        assert store.commit([write(run, 2, b"a", begins=True)]) == [None]
        assert read(store, run, after=1) == [b"a"]

    @pytest.mark.postgres
    @pytest.mark.mariadb
    def test_a_lost_connection_to_a_database_that_does_not_answer_is_an_outage(self, store, monkeypatch):
        run = create(store)
        lose_connection()
        with monkeypatch.context() as context:
            # Over TCP, where nothing listens on that port; a socket would not ask for one.
            context.setitem(connection.settings_dict, "HOST", "127.0.0.1")
            context.setitem(connection.settings_dict, "PORT", "1")
            with pytest.raises(StoreUnavailable):
                store.commit([write(run, 2, b"a", begins=True)])
        assert store.commit([write(run, 2, b"a", begins=True)]) == [None]

    @pytest.mark.sqlite
    def test_a_locked_database_is_an_outage(self, store):
        run = create(store)
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("BEGIN IMMEDIATE")
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA busy_timeout = 1")
            with pytest.raises(StoreUnavailable):
                store.commit([write(run, 2, b"a", begins=True)])
        finally:
            other.close()
        assert store.commit([write(run, 2, b"a", begins=True)]) == [None]


class TestRead:
    def test_it_goes_on_behind_any_seq(self, store):
        run = create(store)
        frames = [b"%d" % seq for seq in range(2, 12)]
        for start in range(0, 10, 3):
            store.commit([write(run, start + 2, *frames[start : start + 3], begins=not start)])
        for after in range(1, 13):
            assert read(store, run, after=after) == frames[after - 1 :]

    def test_it_stops_at_the_bytes_asked_for(self, store):
        run = create(store)
        store.commit([write(run, 2, b"aaaa", b"bbbb", begins=True)])
        store.commit([write(run, 4, b"cccc", b"dddd")])
        assert read(store, run, after=1, max_bytes=0) == [b"aaaa"]
        assert read(store, run, after=1, max_bytes=8) == [b"aaaa", b"bbbb"]
        assert read(store, run, after=2, max_bytes=8)[0] == b"bbbb"

    def test_the_lineage_has_the_messages_of_all_ancestors(self, store):
        run = create(store, "0", message_ids=["a"])
        store.commit([write(run, 2, begins=True, ending=ending(message_ids=["b"]))])
        child = create(store, "1", parent=run, message_ids=["c"])
        create(store, "2", parent=run, message_ids=["d"])
        assert store.lineage_message_ids(child.key) == {"a", "b", "c"}

    def test_a_lineage_may_be_longer_than_a_database_likes_to_recurse(self, store):
        first = create(store, "first", message_ids=["first"])
        start = first.key + 1
        rows = [
            new_row(ADA, "", run_id=str(number), parent=start + number - 1, created_at=first.started_at)
            for number in range(1100)
        ]
        for number, row in enumerate(rows):
            row.pk = start + number
        Run.objects.bulk_create(rows)
        assert store.lineage_message_ids(rows[-1].pk) == {"first"}


class TestPage:
    def test_it_lists_the_runs_of_the_engine_newest_first(self, store):
        runs = [create(store, str(number)) for number in range(3)]
        new_row(ADA, "", run_id="delegate", is_ledger_only=True, created_at=runs[0].started_at).save()
        create(store, "foreign", BOB)
        page = store.page(owner=ADA, scope="", query=RunQuery())
        assert list(page.runs) == runs[::-1]
        assert page.next is None
        assert store.get(owner=ADA, scope="", run_id="delegate") is None

    def test_cursors_lead_through_all_runs(self, store):
        runs = [create(store, str(number)) for number in range(5)]
        seen, cursor = [], None
        while True:
            page = store.page(owner=ADA, scope="", query=RunQuery(limit=2, cursor=cursor))
            seen += page.runs
            if page.next is None:
                break
            cursor = page.next
        assert seen == runs[::-1]
        assert list(store.page(owner=ADA, scope="", query=RunQuery(limit=0)).runs) == runs[::-1]

    @pytest.mark.parametrize("cursor", ["", "1", "x" * 32, "0" * 32, "é", "9" * 1000])
    def test_a_made_up_cursor_is_refused(self, store, cursor):
        create(store)
        with pytest.raises(InvalidInput):
            store.page(owner=ADA, scope="", query=RunQuery(cursor=cursor))

    def test_a_cursor_is_of_use_to_its_owner_only_and_hides_the_key(self, store):
        for owner in (ADA, BOB):
            for number in range(2):
                create(store, str(number), owner)
        cursor = store.page(owner=ADA, scope="", query=RunQuery(limit=1)).next
        with pytest.raises(InvalidInput):
            store.page(owner=BOB, scope="", query=RunQuery(limit=1, cursor=cursor))
        assert f"{Run.objects.latest('pk').pk:x}".zfill(8) not in cursor

    def test_it_filters_by_thread_status_and_text(self, store):
        runs = [create(store, f"run {number}", thread_id=str(number % 2)) for number in range(4)]
        store.commit([write(runs[3], 2, b"a", begins=True)])
        Run.objects.filter(pk=runs[0].key).update(preview="Find the 100% answer")

        def found(**query: Any) -> list[str]:
            return [run.run_id for run in store.page(owner=ADA, scope="", query=RunQuery(**query)).runs]

        assert found(thread_id="1") == ["run 3", "run 1"]
        assert found(status="running") == ["run 3"]
        assert found(text="100% ANSWER") == ["run 0"]
        assert found(text="run 2") == ["run 2"]
        assert found(text="100_ANSWER") == []
        assert found(thread_id="0", status="running") == []

    def test_one_query_whatever_the_number_of_runs(self, store, django_assert_num_queries):
        for number in range(30):
            run = create(store, str(number))
            for call in range(number % 3):
                ToolEffect.objects.create(
                    run_id=run.key, tool_call_id=str(call), call_digest=str(call), tool_name="t", status="started",
                    started_at=run.started_at,
                )  # fmt: skip
        with django_assert_num_queries(1):
            page = store.page(owner=ADA, scope="", query=RunQuery())
        assert [run.unresolved_effects for run in page.runs] == [number % 3 for number in range(30)][::-1]


class TestFold:
    STATE, REST = b'{"type":"STATE_SNAPSHOT","snapshot":{"name":"\\u00e9\xc3\xa9"}}', b'{"type":"RUN_FINISHED"}'

    def test_what_is_folded_at_the_end_is_written_with_it(self, store):
        run = create(store)
        assert store.folded(run.key) == KeptFold(frames=(), last_seq=1)
        assert store.commit([write(run, 2, b"a", begins=True, ending=ending(folded=[self.STATE]))]) == [None]
        assert store.folded(run.key) == KeptFold(frames=[self.STATE], last_seq=3)

    def test_a_fold_replaces_the_one_before(self, store):
        run = create(store)
        store.commit([write(run, 2, begins=True, ending=ending(folded=[self.STATE]))])
        store.keep_fold(run.key, [self.STATE, self.REST])
        assert store.folded(run.key).frames == [self.STATE, self.REST]

    def test_nothing_is_folded_of_a_live_run(self, store):
        run = create(store)
        store.keep_fold(run.key, [self.STATE])
        assert store.folded(run.key).frames == ()

    def test_what_a_run_was_asked_for_comes_back(self, store):
        request = {"thread": {"knows_newest": False}}
        assert store.request(create(store, request=request).key) == request
        assert store.request(create(store, "other").key) is None

    def test_there_is_none_of_a_run_that_is_gone(self, store):
        for read_gone in (store.folded, store.request, store.input):
            with pytest.raises(RunNotFound):
                read_gone(-1)


class TestTidy:
    def ended(self, store: DatabaseRunStore, frames: list[bytes], *, per_commit: int = 7) -> StoredRun:
        run = create(store)
        for start in range(0, len(frames), per_commit):
            store.commit([write(run, start + 2, *frames[start : start + per_commit], begins=not start)])
        store.commit([write(run, len(frames) + 2, ending=ending())])
        return run

    def test_an_ended_log_is_merged_compressed_and_reads_the_same(self, store):
        frames = [b'{"number":%d}' % number * 100 for number in range(400)]
        run = self.ended(store, frames)
        whole = read(store, run)
        store.tidy(run.key)
        assert read(store, run) == whole
        assert [read(store, run, after=after) for after in range(0, 402, 13)] == [
            whole[after:] for after in range(0, 402, 13)
        ]
        stretches = RunFrames.objects.order_by("last_seq")
        assert all(row.is_compressed and row.size <= 256 * 1024 for row in stretches)
        assert 2 < len(stretches) < 10
        assert sum(len(row.data) for row in stretches) * 10 < sum(map(len, whole))

    def test_a_live_run_is_left_as_it_is(self, store):
        run = create(store)
        store.commit([write(run, 2, b"a", begins=True)])
        store.tidy(run.key)
        assert not RunFrames.objects.filter(is_compressed=True).exists()

    def test_repeating_it_changes_nothing(self, store):
        run = self.ended(store, [b"a"] * 20)
        store.tidy(run.key)
        before = list(RunFrames.objects.values_list())
        store.tidy(run.key)
        assert list(RunFrames.objects.values_list()) == before

    def test_several_at_once_lose_and_double_nothing(self, store):
        run = self.ended(store, [b"%d" % number * 1000 for number in range(600)])
        whole = read(store, run, max_bytes=10_000_000)
        results = in_threads(4, lambda: store.tidy(run.key))
        assert all(result is None or isinstance(result, OperationalError) for result in results)
        store.tidy(run.key)
        assert read(store, run, max_bytes=10_000_000) == whole

    def test_a_reader_meets_whole_logs_only(self, store):
        run = self.ended(store, [b"%d" % number * 1000 for number in range(300)])
        whole = read(store, run, max_bytes=10_000_000)

        def read_all() -> list[bytes]:
            frames: list[bytes] = []
            while more := read(store, run, after=len(frames), max_bytes=20_000):
                frames += more
            return frames

        actions = iter([lambda: store.tidy(run.key), *[read_all] * 3])
        results = in_threads(4, lambda: next(actions)())
        assert [result for result in results if result is not None] == [whole] * 3

    @pytest.mark.postgres
    def test_it_waits_for_a_deletion_that_has_locked_the_run(self, store):
        run = self.ended(store, [b"a"] * 20)
        with ThreadPoolExecutor(1) as pool, transaction.atomic():
            Run.objects.select_for_update().get(pk=run.key)
            tidied = pool.submit(tidy_and_release, store, run.key)
            wait_until_blocked()
            Run.objects.filter(pk=run.key).delete()
        assert tidied.result() is None
        assert not RunFrames.objects.exists()

    def test_a_large_frame_is_merged_too(self, store):
        large = bytes(range(256)).replace(b"\n", b"") * 40_000
        run = self.ended(store, [b"a", large, b"b"])
        store.tidy(run.key)
        assert read(store, run, after=1, max_bytes=100_000_000) == [b"a", large, b"b", b"end"]


def tidy_and_release(store: DatabaseRunStore, key: int) -> None:
    try:
        store.tidy(key)
    finally:
        release_connections()


def wait_until_blocked() -> None:
    """Wait until another connection waits for a lock that this one holds."""
    deadline = time.monotonic() + 10
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("SELECT 1 FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)) LIMIT 1")
            if cursor.fetchone():
                return
    raise AssertionError("nobody waits for this transaction")


def lose_connection() -> None:
    """Have the server end this thread's connection."""
    is_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if is_postgres else "SELECT CONNECTION_ID()")
        (key,) = cursor.fetchone()
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)" if is_postgres else "KILL %s", [key])
    finally:
        other.close()


@contextmanager
def commit_that_loses_its_answer() -> Iterator[None]:
    """Let the database commit, and the connection break before it says so."""
    original = connection._commit

    def commit() -> None:
        original()
        raise OperationalError("the connection broke")

    connection._commit = commit
    try:
        yield
    finally:
        del connection._commit
