import asyncio
import threading
from dataclasses import dataclass

import pytest
from pydantic_ai import Agent

from django_pydantic_agent.exceptions import LeaseLost, StoreUnavailable, UnstorableWrite
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.recorder import InlineRecorder, Recorder
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.conversations import TurnSave
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.stores.writes import Ending
from django_pydantic_agent.testing.models import Gate, ScriptedModel, Text
from tests.core.plans import events, plan, start, stored, types
from tests.sse import check_sequence


@dataclass(frozen=True)
class Change:
    size: int = 1


class TroubledStore(MemoryRunStore):
    """A memory store whose commits fail as a database's do."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.is_away = False
        self.gone_for = 0
        self.poisoned = set()
        self.let_commit = threading.Event()
        self.let_commit.set()
        self.committing = threading.Event()

    def commit(self, writes):
        self.committing.set()
        self.let_commit.wait(10)
        self.batches.append([(write.key, len(write.frames)) for write in writes])
        if self.is_away or self.gone_for > 0:
            self.gone_for -= 1
            raise StoreUnavailable("away")
        return [
            UnstorableWrite("a row")
            if write.key in self.poisoned and (write.ledger or (write.ending and write.ending.usage))
            else super(TroubledStore, self).commit([write])[0]
            for write in writes
        ]


@pytest.fixture
def recorder():
    recorder = Recorder()
    yield recorder
    recorder.stop()


@pytest.fixture
def impatient(settings):
    settings.DJANGO_PYDANTIC_AGENT = {"STORE_PATIENCE_SECONDS": 0.1}


class Thread:
    """A conversation store that keeps of each turn as of which seq it was saved; turns as of `refused` it refuses."""

    def __init__(self, *refused):
        self.saved = []
        self.refused = set(refused)

    def save(self, saved):
        if saved.through_seq in self.refused:
            raise KeyError(saved.through_seq)
        self.saved.append(saved.through_seq)

    def end(self, saved, ending):
        self.save(saved)
        return 2


def turn(journal, seq):
    return TurnSave(run=journal.key, through_seq=seq, size=1)


def journal_of(recorder, store, conversation=None):
    run_plan = plan(store=store)
    from django_pydantic_agent.runs.opening import new_run

    run = store.create(new_run(run_plan), on_commit=lambda *_: None)
    return recorder.open(store, run, LiveLog(store, run.key, last_seq=1, status=run.status), conversation)


def test_what_gathers_during_a_commit_goes_into_the_next_one_for_all_runs_together(recorder):
    store = TroubledStore()
    journals = [journal_of(recorder, store) for _ in range(3)]

    async def main():
        store.let_commit.clear()
        journals[0].append(b"{}")
        await asyncio.to_thread(store.committing.wait, 10)
        for journal in journals:
            for _ in range(100):
                journal.append(b"{}")
        store.let_commit.set()
        await asyncio.gather(*(journal.settled() for journal in journals))

    asyncio.run(main())
    assert len(store.batches) <= 3
    assert [journal.log.last_seq for journal in journals] == [102, 101, 101]
    assert [store.progress([journal.key])[journal.key][0] for journal in journals] == [102, 101, 101]


def test_frames_are_shown_only_after_they_are_committed(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    store.let_commit.clear()
    journal.append(b'{"n":2}')
    assert not journal.log.wait(1, 0.1)
    store.let_commit.set()
    assert journal.log.wait(1, 10)
    assert journal.log.read(1) == [b'{"n":2}']


def test_an_outage_shorter_than_the_patience_loses_nothing_and_fails_nobody(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    store.gone_for = 3

    async def main():
        for _ in range(5):
            journal.append(b"{}")
        await journal.settled()

    asyncio.run(main())
    assert journal.log.last_seq == 6
    assert journal.times.retries == 3


@pytest.mark.usefixtures("impatient")
def test_a_longer_outage_stops_the_run_and_its_end_is_written_once_the_store_is_back():
    store, gate = TroubledStore(), Gate()
    run_plan = plan([[Text("before"), gate, *[Text("x")]]], store=store)
    run = start(run_plan)
    gate.wait_reached()
    store.is_away = True
    gate.open()
    seen = events(run_plan, run)
    check_sequence(seen, partial=True)
    assert stored(run_plan).status.is_live
    store.is_away = False
    get_engine().wait()
    found = events(run_plan, run)
    check_sequence(found)
    assert found[: len(seen)] == seen
    assert (found[-1]["type"], found[-1].get("code")) == ("RUN_ERROR", "storage")
    assert "before" in repr(found)
    assert stored(run_plan).status is RunStatus.FAILED


async def check_given_up(journal):
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(journal.settled(), 10)
    assert journal.log.is_closed


@pytest.mark.usefixtures("impatient")
def test_a_run_that_first_writes_during_an_outage_is_stopped_after_the_patience_too(recorder):
    store = TroubledStore()
    early, late = journal_of(recorder, store), journal_of(recorder, store)
    store.is_away = True

    async def main():
        early.append(b"{}")
        await asyncio.to_thread(store.committing.wait, 10)
        late.append(b"{}")
        await asyncio.gather(check_given_up(early), check_given_up(late))
        store.is_away = False
        for journal in (early, late):
            assert await journal.end(Ending(status=RunStatus.FAILED, frame=lambda revision: b"{}"))

    asyncio.run(main())
    assert [journal.log.last_seq for journal in (early, late)] == [3, 3]


@pytest.mark.usefixtures("impatient")
def test_a_run_that_goes_on_writing_during_an_outage_is_stopped_after_the_patience(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    store.is_away = True

    async def main():
        journal.append(b"{}")
        await asyncio.to_thread(store.committing.wait, 10)
        journal.append(b"{}")
        await check_given_up(journal)

    asyncio.run(main())


def test_a_run_of_one_store_goes_on_while_another_store_is_away(recorder):
    away, other = TroubledStore(), TroubledStore()
    waiting, going_on = journal_of(recorder, away), journal_of(recorder, other)
    away.is_away = True

    async def main():
        waiting.append(b"{}")
        await asyncio.to_thread(away.committing.wait, 10)
        going_on.append(b"{}")
        await asyncio.wait_for(going_on.settled(), 10)
        away.is_away = False
        await asyncio.wait_for(waiting.settled(), 10)

    asyncio.run(main())
    assert [journal.log.last_seq for journal in (waiting, going_on)] == [2, 2]


@pytest.mark.usefixtures("impatient")
def test_a_run_that_ends_during_an_outage_ends_as_it_did_once_the_store_is_back(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    store.is_away = True

    async def main():
        end = asyncio.create_task(journal.end(Ending(status=RunStatus.FINISHED, frame=lambda revision: b"{}")))
        await asyncio.to_thread(journal.log.wait, 1, 10)
        assert journal.log.is_closed
        store.is_away = False
        assert await end

    asyncio.run(main())
    assert journal.log.status is RunStatus.FINISHED


def test_a_row_that_the_store_refuses_fails_its_run_and_no_other_and_leaves_no_hole(recorder):
    store = TroubledStore()
    bad, good = journal_of(recorder, store), journal_of(recorder, store)
    store.poisoned.add(bad.key)

    async def main():
        for journal in (bad, good):
            journal.append(b"{}")
            journal.write(Change())
        with pytest.raises(UnstorableWrite):
            await bad.settled()
        await good.settled()
        bad.append(b'{"closing":1}')
        assert await bad.end(Ending(status=RunStatus.FAILED, frame=lambda revision: b'{"end":1}'))

    asyncio.run(main())
    assert store.read_frames(bad.key, after=1, max_bytes=10**6) == [b"{}", b'{"closing":1}', b'{"end":1}']
    assert good.log.last_seq == 2


def test_a_run_whose_end_the_store_refuses_ends_as_failed():
    class Refusing(MemoryRunStore):
        def commit(self, writes):
            return [
                UnstorableWrite("the usage")
                if write.ending is not None and write.ending.usage
                else super(Refusing, self).commit([write])[0]
                for write in writes
            ]

    run_plan = plan(store=Refusing())
    found = events(run_plan)
    check_sequence(found)
    assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "storage")
    assert "TEXT_MESSAGE_END" in types(found)
    assert stored(run_plan).status is RunStatus.FAILED


FAILED = Ending(status=RunStatus.FAILED, frame=lambda revision: b"{}")


def test_a_turn_outlives_a_ledger_row_that_the_store_refuses_in_the_same_write(recorder):
    store, thread = TroubledStore(), Thread()
    journal = journal_of(recorder, store, thread)
    store.poisoned.add(journal.key)

    async def main():
        store.let_commit.clear()
        journal.append(b"{}")
        journal.write(Change())
        journal.save_turn(turn(journal, 2))
        store.let_commit.set()
        with pytest.raises(UnstorableWrite):
            await journal.settled()
        assert await journal.end(FAILED, turn(journal, 3))

    asyncio.run(main())
    assert thread.saved == [2, 3]
    assert journal.log.last_seq == 3


def test_a_refused_turn_is_saved_with_the_end_and_before_all_that_came_later(recorder):
    store, thread = TroubledStore(), Thread(2)
    journal = journal_of(recorder, store, thread)

    async def main():
        journal.append(b"{}")
        journal.save_turn(turn(journal, 2))
        with pytest.raises(UnstorableWrite):
            await journal.settled()
        thread.refused.clear()
        journal.append(b"{}")
        journal.save_turn(turn(journal, 3))
        assert await journal.end(FAILED, turn(journal, 4))

    asyncio.run(main())
    assert thread.saved == [2, 3, 4]
    assert journal.log.last_seq == 4


def test_a_turn_that_is_refused_again_keeps_its_run_from_no_end(recorder):
    store, thread = TroubledStore(), Thread(2)
    journal = journal_of(recorder, store, thread)

    async def main():
        journal.append(b"{}")
        journal.save_turn(turn(journal, 2))
        with pytest.raises(UnstorableWrite):
            await journal.settled()
        assert not await journal.end(FAILED, turn(journal, 2))
        assert await journal.end(FAILED)

    asyncio.run(main())
    assert (journal.log.last_seq, journal.log.status) == (3, RunStatus.FAILED)


def test_an_outage_right_after_a_refusal_loses_nothing(recorder):
    class Refusing(TroubledStore):
        def commit(self, writes):
            results = super().commit(writes)
            if any(results):
                self.gone_for = 2
            return results

    store = Refusing()
    journal = journal_of(recorder, store)
    store.poisoned.add(journal.key)

    async def main():
        journal.append(b"{}")
        journal.write(Change())
        with pytest.raises(UnstorableWrite):
            await journal.settled()
        assert await journal.end(FAILED)

    asyncio.run(main())
    assert journal.log.last_seq == 3


def test_a_refused_end_can_be_written_as_another_one_although_a_row_was_queued_meanwhile(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    store.poisoned.add(journal.key)

    async def main():
        store.let_commit.clear()
        refused = Ending(status=RunStatus.FINISHED, frame=lambda revision: b"{}", usage={"requests": 1})
        end = asyncio.create_task(journal.end(refused))
        await asyncio.to_thread(store.committing.wait, 10)
        journal.write(Change())
        store.let_commit.set()
        assert not await end
        assert await journal.end(Ending(status=RunStatus.FAILED, frame=lambda revision: b'{"end":1}'))

    asyncio.run(main())
    assert store.read_frames(journal.key, after=1, max_bytes=10**6) == [b'{"end":1}']


def test_a_run_whose_lease_is_lost_writes_nothing_more(recorder):
    store = TroubledStore()
    journal = journal_of(recorder, store)
    journal.epoch = 7

    async def main():
        journal.append(b"{}")
        with pytest.raises(LeaseLost):
            await journal.settled()
        assert not await journal.end(Ending(status=RunStatus.FAILED, frame=lambda revision: b"{}"))

    asyncio.run(main())
    assert store.progress([journal.key]) == {journal.key: (1, RunStatus.QUEUED)}


def test_a_run_waits_when_too_much_of_it_is_uncommitted(settings):
    settings.DJANGO_PYDANTIC_AGENT = {"PENDING_BYTES": 2_000}
    store = TroubledStore()
    model = ScriptedModel([[Text("x" * 20_000, chunk=10)]])
    run_plan = plan(agent=Agent(model), store=store)
    events(run_plan)
    assert max(frames for batch in store.batches for _, frames in batch) < 60


def test_the_inline_recorder_commits_in_the_thread_that_waits():
    threads = []

    class Watched(MemoryRunStore):
        def commit(self, writes):
            threads.append(threading.current_thread())
            return super().commit(writes)

    from asgiref.sync import async_to_sync

    journal = journal_of(InlineRecorder(), Watched())

    async def main():
        journal.append(b"{}")
        await journal.settled()

    async_to_sync(main)()
    assert threads == [threading.current_thread()]


def test_many_small_deltas_share_few_commits():
    store = TroubledStore()
    found = events(plan([[Text("x" * 2000, chunk=1)]], store=store))
    assert types(found).count("TEXT_MESSAGE_CONTENT") == 2000
    assert len(store.batches) < 400
