"""Histories as chains of rows."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.history import COLUMNS, Chain, HistoryReader
from django_pydantic_agent.contrib.store.messages import Recording, common_prefix, dump, load
from django_pydantic_agent.contrib.store.models import HistoryMessage, Run, Snapshot
from django_pydantic_agent.contrib.store.recording import RecordingStepStore
from django_pydantic_agent.contrib.store.rows import insert
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.step_store import answer, effect, event, prompt, snapshot
from tests.store.factories import new_run, request_of, step_store

ADA = Owner("user:1")


class TestCommonPrefix:
    @given(st.binary(max_size=50), st.binary(max_size=50), st.binary(max_size=50))
    def test_it_is_the_longest_beginning_of_both(self, shared, first, second):
        number = common_prefix(shared + first, shared + second)
        assert (shared + first)[:number] == (shared + second)[:number]
        assert (shared + first)[number : number + 1] != (shared + second)[number : number + 1] or number == len(
            shared + first
        ) == len(shared + second)


def message_lists() -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=8)


@pytest.mark.django_db
class TestRecordedHistories:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(message_lists())
    def test_each_comes_back_whatever_came_before_it(self, histories):
        HistoryMessage.objects.all().delete()
        texts = ["a", "ab", "b\n,", "\N{GRINNING FACE}"]
        recording, references = Recording.empty(), []
        for number, history in enumerate(histories, 1):
            messages: list[ModelMessage] = [prompt(texts[index]) for index in history]
            rows = recording.save(messages, writer=1, number=number)
            insert(connection, HistoryMessage, COLUMNS, rows)
            references.append((recording.chain.reference, messages))
        reader = HistoryReader(connection)
        for reference, messages in references:
            history, chain = reader.read(*reference)
            assert load(history) == messages
            assert chain.reference == (reference if chain.links else (0, 0, 0))

    def test_every_row_of_a_chain_adds_to_it(self):
        first, _ = Chain().extend(1, 1, b"aaaa")
        second, _ = first.extend(1, 2, b"bbbb")
        third, rows = second.cut(4).extend(1, 3, b"cc")
        assert [(link.number, link.start) for link in third.links] == [(1, 0), (3, 4)]
        assert rows == [(1, 3, 0, 1, 1, 4, 6, b"cc")]
        assert second.cut(0).links == ()

    def test_a_chain_may_be_longer_than_a_database_likes_to_recurse(self):
        chain, rows = Chain(), []
        for number in range(1, 1200):
            chain, more = chain.extend(1, number, b"%d," % number)
            rows += more
        insert(connection, HistoryMessage, COLUMNS, rows)
        history, read = HistoryReader(connection).read(*chain.reference)
        assert history == b"".join(b"%d," % number for number in range(1, 1200))
        assert read == chain

    def test_a_missing_row_is_an_error_and_not_a_shorter_history(self):
        with pytest.raises(LookupError, match="7:1"):
            HistoryReader(connection).read(7, 1, 10)


class KeptJournal:
    """Keeps what is written, for a test to commit."""

    def __init__(self, store: DatabaseRunStore, run_id: str) -> None:
        self.store = store
        self.run = store.create(new_run(ADA, run_id), on_commit=lambda *_: None)
        self.key, self.run_id = self.run.key, run_id
        self.changes: list[Any] = []
        self.settlements = 0

    def write(self, change: Any) -> None:
        self.changes.append(change)

    async def settled(self) -> None:
        self.settlements += 1

    def commit(self) -> None:
        write = RunWrite(key=self.key, epoch=1, first_seq=2, ledger=self.changes)
        assert self.store.commit([write]) == [None]
        self.changes = []


def save(store: RecordingStepStore, run_id: str, *histories: list[ModelMessage]) -> None:
    async def save_all() -> None:
        for step, history in enumerate(histories):
            await store.save_snapshot(snapshot(run_id, *history, step=step))

    asyncio.run(save_all())


@pytest.mark.django_db
class TestLiveRun:
    def test_only_what_is_new_is_written(self):
        journal = KeptJournal(DatabaseRunStore(), "run")
        store = step_store(ADA).recording(journal)
        old: list[ModelMessage] = [prompt("x" * 1000), answer("y" * 1000)]
        last = prompt("z" * 1000)
        save(store, "run", old, [*old, last])
        last.metadata = {"stamped": "later"}
        save(store, "run", [*old, last], [*old, last, answer("done")])
        sizes = [sum(len(row[-1]) for row in change.history) for change in journal.changes]
        whole = len(dump([*old, last, answer("done")]))
        assert sum(sizes) < whole + 200
        assert sizes[2] < 200
        journal.commit()
        (read, *_) = async_to_sync(step_store(ADA).list_snapshots)(run_id="run")[::-1]
        assert read.messages == [*old, last, answer("done")]

    def test_a_history_that_was_copied_is_found_to_be_the_same(self):
        journal = KeptJournal(DatabaseRunStore(), "run")
        store = step_store(ADA).recording(journal)
        save(store, "run", [prompt("x" * 1000), answer("y")], [prompt("x" * 1000), answer("y"), prompt("z")])
        assert sum(len(row[-1]) for row in journal.changes[1].history) < 500

    def test_a_run_that_continues_another_copies_nothing_of_it(self):
        runs = DatabaseRunStore()
        source = KeptJournal(runs, "source")
        history: list[ModelMessage] = [prompt("x" * 10_000), answer("y" * 10_000)]
        save(step_store(ADA).recording(source), "source", history)
        source.commit()
        before = [list(model.objects.filter(pk__gt=0).values_list()) for model in (HistoryMessage, Snapshot)]

        store = step_store(ADA)
        read = async_to_sync(store.latest_snapshot)(run_id="source")
        fork = KeptJournal(runs, "fork")
        more = [*read.messages, prompt("go on")]
        save(store.recording(fork), "fork", more)
        assert sum(len(row[-1]) for row in fork.changes[0].history) < 500
        fork.commit()
        after = [
            list(HistoryMessage.objects.filter(writer=source.key).values_list()),
            list(Snapshot.objects.filter(run=source.key).values_list()),
        ]
        assert after == before
        assert async_to_sync(step_store(ADA).latest_snapshot)(run_id="fork").messages == more

    def test_C19_a_fork_outlives_the_run_that_it_continues(self):
        runs = DatabaseRunStore()
        source = KeptJournal(runs, "source")
        save(step_store(ADA).recording(source), "source", [prompt("hi"), answer("hello")])
        source.commit()
        store = step_store(ADA)
        read = async_to_sync(store.latest_snapshot)(run_id="source")
        fork = KeptJournal(runs, "fork")
        save(store.recording(fork), "fork", read.messages)
        fork.commit()
        Run.objects.filter(run_id="source").delete()
        assert async_to_sync(step_store(ADA).latest_snapshot)(run_id="fork").messages == read.messages

    def test_a_snapshot_saved_apart_from_a_live_run_does_not_disturb_it(self):
        journal = KeptJournal(DatabaseRunStore(), "run")
        store = step_store(ADA).recording(journal)
        save(store, "run", [prompt("one")])
        journal.commit()
        async_to_sync(step_store(ADA).save_snapshot)(snapshot("run", prompt("one"), prompt("apart")))
        save(store, "run", [prompt("one"), prompt("two")])
        journal.commit()
        snapshots = async_to_sync(step_store(ADA).list_snapshots)(run_id="run")
        assert [row.messages for row in snapshots] == [
            [prompt("one")],
            [prompt("one"), prompt("apart")],
            [prompt("one"), prompt("two")],
        ]

    def test_a_cut_may_fall_into_a_character(self):
        journal = KeptJournal(DatabaseRunStore(), "run")
        store = step_store(ADA).recording(journal)
        histories: list[list[ModelMessage]] = [[prompt("\N{GRINNING FACE}")], [prompt("\N{UNICORN FACE}")]]
        save(store, "run", *histories)
        journal.commit()
        snapshots = async_to_sync(step_store(ADA).list_snapshots)(run_id="run")
        assert [row.messages for row in snapshots] == histories


@pytest.mark.django_db
class TestHotPath:
    def test_a_live_run_asks_the_database_for_nothing(self, django_assert_num_queries):
        journal = KeptJournal(DatabaseRunStore(), "run")
        store = step_store(ADA).recording(journal)

        async def run() -> None:
            assert await store.get_run(run_id="run") is None
            await store.register_run(RunRecord(run_id="run"))
            assert (await store.get_run(run_id="run")).run_id == "run"
            await store.append_event(event("run", key="a"))
            await store.append_event(event("run", key="a"))
            await store.save_snapshot(snapshot("run", prompt("hi"), idempotency_key="a"))
            await store.save_snapshot(snapshot("run", prompt("hi"), idempotency_key="a"))
            assert journal.settlements == 0
            await store.record_tool_effect(effect("run", "call"))
            assert journal.settlements == 1, "a tool waits until its row is committed"
            assert (await store.get_tool_effect(run_id="run", tool_call_id="call")).status == "started"
            assert len(await store.list_unresolved_tool_effects(run_id="run")) == 1
            await store.record_tool_effect(effect("run", "call", "completed"))
            assert journal.settlements == 1
            assert await store.list_unresolved_tool_effects(run_id="run") == []

        with django_assert_num_queries(0):
            asyncio.run(run())
        assert len(journal.changes) == 5
        assert [change.number for change in journal.changes] == [1, 2, 3, 4, 5]
        journal.commit()

    def test_a_preview_and_whether_it_can_be_continued_are_known_with_the_first_snapshot(self):
        runs = DatabaseRunStore()
        journal = KeptJournal(runs, "run")
        store = step_store(ADA).recording(journal)
        assert runs.get(owner=ADA, scope="", run_id="run").preview is None
        store_save = async_to_sync(store.save_snapshot)
        store_save(snapshot("run", prompt("  first\n line " + "x" * 500), state="interrupted"))
        journal.commit()
        run = runs.get(owner=ADA, scope="", run_id="run")
        assert (len(run.preview), run.preview[:14], run.continuable) == (120, "first line xxx", False)
        store_save(snapshot("run", ModelRequest(parts=[]), prompt("other")))
        journal.commit()
        run = runs.get(owner=ADA, scope="", run_id="run")
        assert (run.preview[:10], run.continuable) == ("first line", True)


def test_a_store_of_nobody_keeps_nothing(django_assert_num_queries, db):

    store = DefaultStepStore(request_of(AnonymousUser()))
    assert store.owner is None
    assert store.recording(object()) is store

    async def run() -> None:
        await store.register_run(RunRecord(run_id="run"))
        await store.append_event(event("run"))
        await store.save_snapshot(snapshot("run", prompt("hi")))
        await store.record_tool_effect(effect("run", "call"))
        assert await store.get_run(run_id="run") is None
        assert await store.list_runs() == []
        assert await store.list_events(run_id="run") == []
        assert await store.latest_snapshot(run_id="run") is None
        assert await store.list_snapshots(run_id="run") == []
        assert await store.get_tool_effect(run_id="run", tool_call_id="call") is None
        assert await store.list_unresolved_tool_effects(run_id="run") == []

    with django_assert_num_queries(0):
        asyncio.run(run())


@pytest.mark.django_db
def test_owners_and_scopes_share_nothing():
    stores = [
        step_store(ADA),
        step_store(Owner("user:2")),
        step_store(ADA).scoped("mount"),
        step_store(ADA).scoped("m"),
    ]
    for number, store in enumerate(stores):
        async_to_sync(store.append_event)(event("run", error=str(number)))
    for number, store in enumerate(stores):
        events = async_to_sync(store.list_events)(run_id="run")
        assert [row.error for row in events] == [str(number)]
    with pytest.raises(ValueError, match="already"):
        stores[2].scoped("inner")


@pytest.mark.django_db(transaction=True)
def test_no_connection_stays_open_in_a_thread_that_is_not_djangos():
    async def run() -> list[bool]:
        await step_store(ADA).append_event(event("run"))
        return await sync_to_async(lambda: [item.connection is not None for item in connections.all(True)])()

    assert asyncio.run(run()) in ([], [False])
