"""Conversations in the database: what takes real transactions, statements and runs to show."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.contrib.store.claiming import claim
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import (
    HistoryMessage,
    Run,
    RunFrames,
    Snapshot,
    StepEvent,
    Thread,
    ThreadMessage,
    ToolEffect,
)
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore, new_row
from django_pydantic_agent.exceptions import InvalidInput, LeaseLost, ThreadChanged, ThreadNotFound
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.conversations import ThreadQuery, TurnSave, TurnStart
from django_pydantic_agent.stores.scoped import ScopedConversationStore
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.conversation_store import (
    ADA,
    BOB,
    ConversationStoreConformance,
    answer,
    ids_of,
    said,
)
from django_pydantic_agent.testing.step_store import answer as model_answer
from django_pydantic_agent.testing.step_store import effect, event, prompt, snapshot
from tests.store.conversations import DatabaseConversations
from tests.store.factories import ending, new_run, step_store

pytestmark = pytest.mark.django_db(transaction=True)


class Driver(DatabaseConversations):
    """The suite's ways to have turns, without its tests."""

    __test__ = False


@pytest.fixture
def store() -> DefaultConversationStore:
    return DefaultConversationStore()


@pytest.fixture
def driver() -> ConversationStoreConformance:
    return Driver()


@pytest.fixture
def runs() -> DatabaseRunStore:
    return DatabaseRunStore()


def start(store: DefaultConversationStore, *messages: Any, thread_id: str = "thread", **fields: Any) -> TurnStart:
    view = store.view(owner=ADA, thread_id=thread_id)
    revision = None if view is None else view.revision
    return TurnStart(owner=ADA, thread_id=thread_id, messages=messages, **{"revision": revision, **fields})


def create(
    runs: DatabaseRunStore, store: DefaultConversationStore, turn: TurnStart, run_id: str, **fields: Any
) -> StoredRun:
    """Create a run as the engine does; its first frame is the revision."""
    new = new_run(
        ADA,
        run_id,
        thread_id=turn.thread_id,
        conversation=store,
        turn=turn,
        first_frame=lambda revision: b"%d" % revision,
        **fields,
    )
    return runs.create(new, on_commit=lambda *_: None)


def write(run: StoredRun, first_seq: int, *frames: bytes, **fields: Any) -> RunWrite:
    return RunWrite(key=run.key, epoch=run.epoch, first_seq=first_seq, frames=list(frames), **fields)


def saved(run: StoredRun, *messages: Any, seq: int = 2, **fields: Any) -> TurnSave:
    return TurnSave(run=run.key, through_seq=seq, size=0, messages=list(enumerate(messages, start=1)), **fields)


def finish(runs: DatabaseRunStore, store: DefaultConversationStore, run: StoredRun, *messages: Any) -> None:
    last = write(run, 2, begins=True, ending=ending(), conversation=store, turns=[saved(run, *messages)])
    assert runs.commit([last]) == [None]


def at_once(*calls: Any) -> list[Any]:
    """Return what the calls return or raise, each in a thread; they start together."""
    results: list[Any] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def work(index: int) -> None:
        barrier.wait()
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error
        finally:
            release_connections()

    threads = [threading.Thread(target=work, args=[index]) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class TestAcceptance:
    @pytest.mark.parametrize("turns_before", [0, 1])
    def test_twelve_at_once_are_all_accepted_once_and_in_order(self, runs, store, turns_before):
        for number in range(turns_before):
            create(runs, store, start(store, said(f"before {number}")), f"before {number}")

        def post(number: int) -> Any:
            def accept() -> int:
                while True:
                    try:
                        run = create(runs, store, start(store, said(f"u{number}")), f"run {number}")
                    except ThreadChanged:
                        continue
                    return int(runs.read_frames(run.key, after=0, max_bytes=100)[0])

            return accept

        revisions = at_once(*map(post, range(12)))
        first = turns_before + 1
        assert sorted(revisions) == list(range(first, first + 12))
        thread = store.read(owner=ADA, thread_id="thread")
        assert thread.revision == turns_before + 12
        assert ids_of(thread.messages)[turns_before:] == [f"u{revisions.index(first + place)}" for place in range(12)]
        assert Run.objects.count() == turns_before + 12
        assert list(Run.objects.order_by("turn").values_list("turn", flat=True)) == list(range(1, turns_before + 13))

    @pytest.mark.postgres
    @pytest.mark.mariadb
    def test_one_that_the_database_undoes_for_another_is_tried_again(self, runs, store):
        create(runs, store, start(store, said("u1")), "run")
        holding, inserted = threading.Event(), threading.Event()
        tries = []

        class Watched(DefaultConversationStore):
            def accept(self, turn: TurnStart, *, run: int, run_id: str) -> int:
                tries.append(run)
                inserted.set()
                return super().accept(turn, run=run, run_id=run_id)

        def insert_runs(*run_ids: str) -> None:
            Run.objects.bulk_create(
                new_row(ADA, "", run_id=run_id, status=RunStatus.QUEUED, created_at=datetime.now(UTC))
                for run_id in run_ids
            )

        def cross() -> None:
            """Lock the thread, then wait for the run of the other transaction, which waits for the thread."""
            with transaction.atomic():
                Thread.objects.select_for_update().get()
                # Undone is who has written less, or who has waited for so long.
                insert_runs(*map(str, range(50)))
                if connection.vendor == "postgresql":
                    connection.cursor().execute("SET LOCAL deadlock_timeout = '60s'")
                holding.set()
                inserted.wait()
                insert_runs("late")
                transaction.set_rollback(True)

        turn = start(store, said("u2"))

        def post() -> StoredRun:
            holding.wait()
            return create(runs, Watched(), turn, "late")

        crossed, run = at_once(cross, post)
        assert (crossed, run.run_id, len(tries)) == (None, "late", 2)
        assert ids_of(store.read(owner=ADA, thread_id="thread").messages) == ["u1", "u2"]
        assert Thread.objects.count() == 1

    def test_a_refused_turn_leaves_no_run_behind(self, runs, store):
        create(runs, store, start(store, said("u1")), "first")
        with pytest.raises(ThreadChanged):
            create(runs, store, start(store, said("u2"), revision=7), "second")
        assert runs.get(owner=ADA, scope="", run_id="second") is None
        assert ThreadMessage.objects.count() == 1

    def test_a_turn_that_is_rolled_back_leaves_no_thread_behind(self, runs, store):
        with transaction.atomic():
            create(runs, store, start(store, said("u1")), "run")
            transaction.set_rollback(True)
        assert store.view(owner=ADA, thread_id="thread") is None
        assert Thread.objects.count() == 0

    def test_it_continues_runs_of_its_own_thread_only(self, runs, store):
        other = create(runs, store, start(store, said("u1"), thread_id="other"), "other")
        create(runs, store, start(store, said("u1")), "first")
        for fields in ({"continues": other.key}, {"follows": other.key}):
            with pytest.raises(ThreadChanged):
                create(runs, store, start(store, said("u2"), **fields), "second")

    def test_the_end_is_one_with_that_of_the_run(self, runs, store):
        run = create(runs, store, start(store, said("u1")), "run")
        end = ending(RunStatus.INTERRUPTED, interrupts=[{"id": "i1"}])
        end = type(end)(status=end.status, interrupts=end.interrupts, frame=lambda revision: b"end at %d" % revision)
        turns = [saved(run, answer("a1"))]
        assert runs.commit([write(run, 2, b"two", begins=True, ending=end, conversation=store, turns=turns)]) == [None]
        assert runs.read_frames(run.key, after=0, max_bytes=100) == [b"1", b"two", b"end at 2"]
        view = store.view(owner=ADA, thread_id="thread")
        assert (view.revision, view.open_interrupts) == (2, {"i1"})
        assert ids_of(store.read(owner=ADA, thread_id="thread").messages) == ["u1", "a1"]

    def test_a_run_whose_messages_were_refused_ends_in_its_thread_all_the_same(self, runs, store):
        run = create(runs, store, start(store, said("u1")), "run")
        assert runs.commit([write(run, 2, begins=True, ending=ending(), conversation=store)]) == [None]
        view = store.view(owner=ADA, thread_id="thread")
        assert (view.revision, view.active) == (2, None)

    def test_a_run_that_was_taken_over_saves_nothing(self, runs, store):
        run = create(runs, store, start(store, said("u1")), "run")
        Run.objects.update(epoch=2)
        late = write(run, 2, b"two", conversation=store, turns=[saved(run, answer("a1"))])
        assert isinstance(runs.commit([late])[0], LeaseLost)
        assert ids_of(store.read(owner=ADA, thread_id="thread").messages) == ["u1"]


class TestReading:
    def test_messages_state_and_seq_are_of_one_moment(self, runs, store):
        run = create(runs, store, start(store, said("u1")), "run")
        ended = threading.Event()

        def go_on() -> None:
            try:
                for seq in range(2, 80):
                    message = answer("a1", f"{seq}" + "x" * 10_000)
                    turn = saved(run, message, seq=seq, state={"seq": seq}, has_state=True)
                    begins = seq == 2
                    assert runs.commit(
                        [write(run, seq, b"frame", begins=begins, conversation=store, turns=[turn])]
                    ) == [None]
            finally:
                ended.set()

        def look() -> int:
            looks = 0
            while not ended.is_set() or not looks:
                thread = store.read(owner=ADA, thread_id="thread")
                seq = thread.active_run.applied_seq
                if seq > 1:
                    looks += 1
                    assert thread.messages[1]["content"] == f"{seq}" + "x" * 10_000
                    assert thread.state == {"seq": seq}
            return looks

        results = at_once(go_on, look, look)
        assert results[0] is None
        assert all(isinstance(looks, int) for looks in results[1:]), results

    def test_a_run_of_a_thread_that_does_not_come_to_rest_is_read_under_its_lock(self, runs, store, monkeypatch):
        run = create(runs, store, start(store, said("u1")), "run")
        read, torn = store._so_far, [None, None, None]
        monkeypatch.setattr(store, "_so_far", lambda *args: torn.pop() if torn else read(*args))
        with CaptureQueriesContext(connection) as queries:
            assert ids_of(store.so_far(run=run.key).messages) == ["u1"]
        assert torn == []
        if connection.features.has_select_for_update:
            assert "FOR UPDATE" in queries.captured_queries[1]["sql"]

    def test_a_thread_that_does_not_come_to_rest_is_read_under_its_lock(self, runs, store, monkeypatch):
        create(runs, store, start(store, said("u1")), "run")
        read, torn = store._read, [None, None, None]
        monkeypatch.setattr(store, "_read", lambda *args: torn.pop() if torn else read(*args))
        with CaptureQueriesContext(connection) as queries:
            assert ids_of(store.read(owner=ADA, thread_id="thread").messages) == ["u1"]
        assert torn == []
        if connection.features.has_select_for_update:
            assert "FOR UPDATE" in queries.captured_queries[1]["sql"]

    @pytest.mark.parametrize("look", ["view", "read", "superseded", "page", "ground", "transcript"])
    def test_the_number_of_queries_does_not_depend_on_the_length(self, store, driver, look, django_assert_num_queries):
        def looks() -> int:
            run = driver.accept(store, said("last"))
            with CaptureQueriesContext(connection) as queries:
                match look:
                    case "view":
                        store.view(owner=ADA, thread_id="thread")
                    case "read":
                        store.read(owner=ADA, thread_id="thread")
                    case "superseded":
                        store.read(owner=ADA, thread_id="thread", superseded=True)
                    case "page":
                        store.page(owner=ADA, query=ThreadQuery())
                    case "ground":
                        store.ground(run=run)
                    case "transcript":
                        store.transcript(run=run)
            driver.end(store, run)
            return len(queries)

        driver.turn(store, "u0", "a0")
        driver.turn(store, "u1", "a1", supersede_from=1)
        before = looks()
        for number in range(20):
            driver.turn(store, f"u{number}", f"a{number}", f"b{number}")
            driver.turn(store, "u", thread_id=f"thread {number}")
            driver.turn(store, f"v{number}", "w", supersede_from=3)
        assert looks() == before
        assert before <= 4

    def test_a_view_reads_no_content(self, store, driver):
        driver.turn(store, "u1", "a1")
        with CaptureQueriesContext(connection) as queries:
            store.view(owner=ADA, thread_id="thread")
        assert not any("body" in query["sql"] for query in queries.captured_queries)

    def test_a_cursor_is_of_use_to_its_owner_and_list_only(self, store, driver):
        for owner in (ADA, BOB):
            for name in "abc":
                driver.turn(store, "u1", thread_id=name, owner=owner)
        cursor = store.page(owner=ADA, query=ThreadQuery(limit=1)).next
        query = ThreadQuery(cursor=cursor)
        assert [row.thread_id for row in store.page(owner=ADA, query=query).threads] == ["b", "a"]
        for other, owner in ((store, BOB), (store.scoped("mount"), ADA)):
            with pytest.raises(InvalidInput):
                other.page(owner=owner, query=query)

    def test_threads_that_changed_at_the_same_moment_are_all_listed(self, store, driver):
        names = [f"thread {number}" for number in range(5)]
        for name in names:
            driver.turn(store, "u1", thread_id=name)
        Thread.objects.update(updated_at=Thread.objects.earliest("pk").updated_at)
        found, query = [], ThreadQuery(limit=2)
        while query is not None:
            page = store.page(owner=ADA, query=query)
            found += [row.thread_id for row in page.threads]
            query = page.next and ThreadQuery(limit=2, cursor=page.next)
        assert found == names[::-1]


class TestWriting:
    def test_a_boundary_is_one_statement_and_the_state_another(self, store, driver):
        run = driver.accept(store, said("u1"))
        messages = [(place, answer(f"a{place}")) for place in range(1, 20)]
        with transaction.atomic():
            with CaptureQueriesContext(connection) as queries:
                store.save(TurnSave(run=run, through_seq=5, size=0, messages=messages))
            assert len(queries) == 1
            with CaptureQueriesContext(connection) as queries:
                store.save(TurnSave(run=run, through_seq=5, size=0, state={"n": 1}, has_state=True))
            assert len(queries) == 1

    def test_what_a_turn_writes_does_not_depend_on_the_length_of_the_thread(self, store, driver):
        def bytes_of_a_turn(number: int) -> tuple[int, int]:
            statements = []

            def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
                if not sql.startswith("SELECT"):
                    statements.append(len(sql) + sum(len(str(value)) for value in params or ()))
                return execute(sql, params, many, context)

            with connection.execute_wrapper(count):
                driver.turn(store, f"u{number:04}", f"a{number:04}")
            return len(statements), sum(statements)

        for number in range(1000, 1005):
            driver.turn(store, f"u{number}", f"a{number}")
        short = bytes_of_a_turn(1005)
        for number in range(1006, 1106):
            driver.turn(store, f"u{number}", f"a{number}")
        long = bytes_of_a_turn(1106)
        assert long[0] == short[0]
        # The keys have more digits.
        assert abs(long[1] - short[1]) <= 40

    def test_a_message_in_pieces_is_one_message(self, store, driver):
        driver.turn(store, "u1", "a1")
        run = driver.accept(store, said("u2", "x" * 9_000_000))
        driver.end(store, run, (1, answer("a2")))
        assert ThreadMessage.objects.filter(message_id="u2").count() == 3
        driver.turn(store, "u3", "a3", supersede_from=2)
        assert [message.id for message in store.view(owner=ADA, thread_id="thread").messages] == [
            "u1",
            "a1",
            "u3",
            "a3",
        ]
        [replaced] = store.read(owner=ADA, thread_id="thread", superseded=True).superseded
        assert replaced.messages[0] == said("u2", "x" * 9_000_000)

    def test_messages_outlive_their_runs(self, store, driver):
        first = driver.turn(store, "u1", "a1")
        driver.turn(store, "u2", "a2")
        driver.turn(store, "u3", "a3", supersede_from=2)
        Run.objects.all().delete()
        assert driver.current(store) == ["u1", "a1", "u3", "a3"]
        view = store.view(owner=ADA, thread_id="thread")
        assert view.turns[0].run == first
        [replaced] = store.read(owner=ADA, thread_id="thread", superseded=True).superseded
        assert (replaced.replaced_by, ids_of(replaced.messages)) == (None, ["u2", "a2"])
        ground = store.ground(run=driver.accept(store, said("u4")))
        assert (ground.previous, ids_of(ground.kept)) == (None, ["u1", "a1", "u3", "a3"])


class TestScopes:
    def test_scopes_are_apart_on_the_same_rows(self, store, driver):
        scoped = ScopedConversationStore(store, scope="mount")
        driver.turn(store, "u1", "a1")
        driver.turn(scoped, "v1", "b1")
        assert driver.current(store) == ["u1", "a1"]
        assert driver.current(scoped) == ["v1", "b1"]
        scoped.delete(owner=ADA, thread_id="thread")
        assert driver.current(store) == ["u1", "a1"]

    @pytest.mark.parametrize(
        ("made", "scope", "error"),
        [
            (DefaultConversationStore, "s", TypeError),
            ("store", "s", TypeError),
            (DefaultConversationStore(), "", ValueError),
        ],
    )
    def test_what_is_no_store_or_no_scope_is_refused(self, made, scope, error):
        with pytest.raises(error):
            ScopedConversationStore(made, scope=scope)

    def test_a_scope_inside_a_scope_is_refused(self, store):
        with pytest.raises(ValueError, match="scoped to 'a' already"):
            store.scoped("a").scoped("b")


def rows_left() -> dict[str, int]:
    models = (Run, RunFrames, HistoryMessage, Snapshot, StepEvent, ToolEffect, Thread, ThreadMessage)
    return {model.__name__: number for model in models if (number := model.objects.count())}


@async_to_sync
async def record(run_id: str, *texts: str, parent: str | None = None, delegate: bool = False) -> None:
    """Have the harness record a run whose history goes on from its parent's, and maybe a delegate inside it."""
    steps = step_store(ADA)
    await steps.register_run(RunRecord(run_id=run_id, parent_run_id=parent))
    await steps.append_event(event(run_id))
    await steps.record_tool_effect(effect(run_id, "call"))
    messages = []
    if parent is not None:
        messages = (await steps.latest_snapshot(run_id=parent)).messages
    for step, text in enumerate(texts):
        messages = [*messages, prompt(text), model_answer(f"answer to {text}")]
        await steps.save_snapshot(snapshot(run_id, *messages, step=step, parent_run_id=parent))
    if delegate:
        await steps.register_run(RunRecord(run_id=f"{run_id} delegate", parent_run_id=run_id))
        await steps.save_snapshot(snapshot(f"{run_id} delegate", prompt("inside")))


@async_to_sync
async def latest(run_id: str) -> Any:
    found = await step_store(ADA).latest_snapshot(run_id=run_id)
    return found and [part.content for message in found.messages for part in message.parts]


class TestDeleting:
    def test_nothing_of_a_thread_is_left(self, runs, store):
        for number in range(3):
            run = create(runs, store, start(store, said(f"u{number}")), f"run {number}")
            record(f"run {number}", "one", "two", parent=f"run {number - 1}" if number else None, delegate=True)
            finish(runs, store, run, answer(f"a{number}"))
        assert len(rows_left()) == 8
        assert store.delete(owner=ADA, thread_id="thread") == []
        assert rows_left() == {}

    def test_what_is_not_of_the_thread_stays(self, runs, store):
        for thread_id in ("thread", "other"):
            run = create(runs, store, start(store, said("u1"), thread_id=thread_id), f"run in {thread_id}")
            record(f"run in {thread_id}", "one", delegate=True)
            finish(runs, store, run, answer("a1"))
        before = rows_left()
        store.delete(owner=ADA, thread_id="thread")
        assert rows_left() == {name: number // 2 for name, number in before.items()}
        assert latest("run in other") == ["one", "answer to one"]

    def test_a_live_run_can_write_nothing_back(self, runs, store):
        live = create(runs, store, start(store, said("u1")), "live")
        assert runs.commit([write(live, 2, b"two", begins=True)]) == [None]
        queued = create(runs, store, start(store, said("u2")), "queued")
        assert store.delete(owner=ADA, thread_id="thread") == [live.key, queued.key]
        late = write(live, 3, b"three", ending=ending(), conversation=store, turns=[saved(live, answer("a1"))])
        assert isinstance(runs.commit([late])[0], LeaseLost)
        assert rows_left() == {}

    def test_C19_forks_in_other_threads_stay_whole(self, runs, store):
        create(runs, store, start(store, said("u1")), "a")
        record("a", "one", "two")
        parent = runs.get(owner=ADA, scope="", run_id="a")
        create(runs, store, start(store, said("v1"), thread_id="b"), "b", parent=parent)
        record("b", "three", parent="a")
        parent = runs.get(owner=ADA, scope="", run_id="b")
        create(runs, store, start(store, said("w1"), thread_id="c"), "c", parent=parent)
        record("c", "four", parent="b")
        finish(runs, store, runs.get(owner=ADA, scope="", run_id="b"), answer("y1"))
        finish(runs, store, runs.get(owner=ADA, scope="", run_id="c"), answer("z1"))
        whole = {name: latest(name) for name in "bc"}
        assert whole["b"] == ["one", "answer to one", "two", "answer to two", "three", "answer to three"]
        store.delete(owner=ADA, thread_id="thread")
        assert {name: latest(name) for name in "bc"} == whole
        fork = runs.get(owner=ADA, scope="", run_id="b")
        assert (fork.parent_run_id, fork.continuable) == ("a", True)
        assert ids_of(store.read(owner=ADA, thread_id="b").messages) == ["v1", "y1"]
        record("d", "five", parent="b")
        assert latest("d") == [*whole["b"], "five", "answer to five"]
        store.delete(owner=ADA, thread_id="b")
        assert latest("c") == whole["c"]
        assert latest("d") == [*whole["b"], "five", "answer to five"]
        store.delete(owner=ADA, thread_id="c")
        assert list(Run.objects.values_list("run_id", flat=True)) == ["d"]
        assert latest("d") == [*whole["b"], "five", "answer to five"]

    def test_the_history_that_no_fork_needs_goes(self, runs, store):
        create(runs, store, start(store, said("u1")), "a")
        record("a", "one")
        create(runs, store, start(store, said("v1"), thread_id="b"), "b")
        record("b", "two", parent="a")
        finish(runs, store, runs.get(owner=ADA, scope="", run_id="b"))
        run = create(runs, store, start(store, said("u2")), "a2")
        record("a2", "three", "four", parent="a")
        finish(runs, store, run)
        store.delete(owner=ADA, thread_id="thread")
        assert latest("b") == ["one", "answer to one", "two", "answer to two"]
        assert not HistoryMessage.objects.filter(writer=run.key).exists()
        store.delete(owner=ADA, thread_id="b")
        assert rows_left() == {}

    def test_a_fork_that_has_only_begun_keeps_its_ground(self, runs, store):
        run = create(runs, store, start(store, said("u1")), "a")
        record("a", "one")
        finish(runs, store, run)
        create(runs, store, start(store, said("v1"), thread_id="b"), "b", parent=run)
        before = HistoryMessage.objects.count()
        store.delete(owner=ADA, thread_id="thread")
        assert HistoryMessage.objects.count() == before

    def test_runs_that_go_on_while_it_is_deleted_are_stopped_and_leave_nothing(self, runs, store):
        live = [create(runs, store, start(store, said(f"u{number}")), f"run {number}") for number in range(3)]
        going = threading.Barrier(2)

        def go_on() -> Any:
            for seq in range(2, 10_000):
                messages = [saved(run, answer(f"a of {run.key}"), seq=seq) for run in live]
                writes = [
                    write(run, seq, b"frame", begins=seq == 2, conversation=store, turns=[turn])
                    for run, turn in zip(live, messages, strict=True)
                ]
                results = runs.commit(writes)
                if seq == 2:
                    going.wait()
                if results != [None] * 3:
                    return {type(result) for result in results}
            return None

        def delete() -> list[int]:
            going.wait()
            return store.delete(owner=ADA, thread_id="thread")

        stopped, deleted = at_once(go_on, delete)
        assert (stopped, deleted) == ({LeaseLost}, [run.key for run in live])
        assert rows_left() == {}

    def test_posts_while_it_is_deleted_end_up_in_a_thread_of_their_own(self, runs, store):
        create(runs, store, start(store, said("u0")), "run")

        def post(number: int) -> Any:
            def accept() -> str:
                while True:
                    try:
                        create(runs, store, start(store, said(f"u{number}")), f"run {number}")
                    except ThreadChanged:
                        continue
                    return "accepted"

            return accept

        def delete() -> Any:
            return store.delete(owner=ADA, thread_id="thread")

        results = at_once(*map(post, range(1, 5)), delete)
        assert results[:4] == ["accepted"] * 4
        deleted = len(results[4])
        assert deleted >= 1
        left = Run.objects.count()
        assert left == 5 - deleted
        if left:
            assert len(store.read(owner=ADA, thread_id="thread").messages) == left
        else:
            assert rows_left() == {}

    @pytest.mark.postgres
    def test_a_run_that_joins_before_the_thread_is_locked_is_deleted_too(self, runs, store):
        create(runs, store, start(store, said("u1")), "run")
        joined: list[StoredRun] = []

        def join(execute: Any, sql: str, *args: Any) -> Any:
            if "FOR UPDATE" in sql and Thread._meta.db_table in sql.split("WHERE")[0] and not joined:
                joined.extend(at_once(lambda: create(runs, store, start(store, said("u2")), "late")))
            return execute(sql, *args)

        with connection.execute_wrapper(join):
            deleted = store.delete(owner=ADA, thread_id="thread")
        assert joined[0].key in deleted
        assert rows_left() == {}

    def test_two_at_once_delete_it_once(self, runs, store):
        create(runs, store, start(store, said("u1")), "run")
        results = at_once(*[lambda: store.delete(owner=ADA, thread_id="thread")] * 2)
        assert sorted(isinstance(result, ThreadNotFound) for result in results) == [False, True]


class TestClaiming:
    VISITOR = Owner.of_bucket("bucket")

    def test_threads_and_their_runs_become_the_users(self, store, driver):
        driver.turn(store, "u1", "a1", owner=self.VISITOR)
        run = driver.accept(store, said("u2"), owner=self.VISITOR)
        claim(self.VISITOR, ADA)
        assert store.view(owner=self.VISITOR, thread_id="thread") is None
        assert driver.current(store) == ["u1", "a1", "u2"]
        driver.end(store, run, (1, answer("a2")))
        assert driver.current(store) == ["u1", "a1", "u2", "a2"]
        driver.turn(store, "u3", "a3")
        assert driver.current(store)[-2:] == ["u3", "a3"]

    def test_a_thread_of_a_taken_id_stays_behind_with_its_runs(self, store, driver):
        driver.turn(store, "v1", "b1", owner=self.VISITOR)
        driver.turn(store, "v1", "b1", owner=self.VISITOR, thread_id="free")
        driver.turn(store, "u1", "a1")
        claim(self.VISITOR, ADA)
        assert driver.current(store) == ["u1", "a1"]
        assert driver.current(store, "free") == ["v1", "b1"]
        assert ids_of(store.read(owner=self.VISITOR, thread_id="thread").messages) == ["v1", "b1"]
        behind = Run.objects.of_owner(self.VISITOR)
        assert {run.in_thread.owner for run in behind} == {self.VISITOR.key}
        assert behind.count() == 1
