import threading
from dataclasses import replace

import pytest

from django_pydantic_agent.exceptions import IdempotencyKeyTaken, LeaseLost, RunIdTaken, UnstorableWrite
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import memory
from django_pydantic_agent.stores.base import Idempotency, RunQuery
from django_pydantic_agent.stores.conversations import TurnSave
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.stores.writes import Ending, RunWrite
from tests.core.plans import OWNER, plan

OTHER = Owner("user:2")


@pytest.fixture
def store():
    return MemoryRunStore()


def create(store, run_id, owner=OWNER):
    return store.create(new_run(plan(store=store, run_id=run_id, owner=owner)), on_commit=lambda *_: None)


def create_under(store, key, run_id, owner=OWNER):
    new = new_run(plan(store=store, run_id=run_id, owner=owner))
    new = replace(new, idempotency=Idempotency(key=key, content="c"))
    return store.create(new, on_commit=lambda *_: None)


def end(store, run):
    ending = Ending(status=RunStatus.FINISHED, frame=lambda revision: b"{}")
    write = RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, ending=ending)
    assert store.commit([write]) == [None]
    store.tidy(run.key)


def test_one_id_is_given_to_one_run_of_an_owner_however_many_ask_at_once(store):
    won, lost = [], []

    def ask():
        try:
            won.append(create(store, "same"))
        except RunIdTaken as taken:
            lost.append(taken.run)

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert lost == won * 9


def test_owners_with_one_run_id_never_meet(store):
    ours, theirs = create(store, "same"), create(store, "same", OTHER)
    assert store.get(owner=OWNER, scope="", run_id="same") == ours
    assert store.get(owner=OTHER, scope="", run_id="same") == theirs
    assert store.get(owner=OWNER, scope="other", run_id="same") is None
    assert [run.key for run in store.page(owner=OTHER, scope="", query=RunQuery()).runs] == [theirs.key]


def test_runs_without_an_owner_are_never_found_and_never_clash(store):
    create(store, "same", None)
    create(store, "same", None)
    assert store.get(owner=None, scope="", run_id="same") is None
    assert store.page(owner=None, scope="", query=RunQuery()).runs == []


def test_an_idempotency_key_is_that_of_one_run_of_its_owner_for_as_long_as_that_is_kept(store, monkeypatch):
    monkeypatch.setattr(memory, "ENDED_RUNS", 1)
    first, theirs = create_under(store, "k", "r1"), create_under(store, "k", "r1", OTHER)
    with pytest.raises(IdempotencyKeyTaken):
        create_under(store, "k", "r2")
    found = store.by_idempotency_key("k", owner=OWNER, scope="", server=first.server)
    assert (found, found.content_digest) == (first, "c")
    assert store.by_idempotency_key("k", owner=OTHER, scope="", server=first.server) == theirs
    create_under(store, "k", "r3", None)
    create_under(store, "k", "r4", None)
    end(store, first)
    end(store, theirs)
    assert create_under(store, "k", "r2").run_id == "r2"


def test_pages_go_from_the_newest_to_the_oldest_run(store):
    for number in range(5):
        create(store, f"r{number}")
    first = store.page(owner=OWNER, scope="", query=RunQuery(limit=2))
    second = store.page(owner=OWNER, scope="", query=RunQuery(limit=2, cursor=first.next))
    last = store.page(owner=OWNER, scope="", query=RunQuery(limit=2, cursor=second.next))
    assert [[run.run_id for run in page.runs] for page in (first, second, last)] == [["r4", "r3"], ["r2", "r1"], ["r0"]]
    assert last.next is None


def test_an_append_goes_on_from_the_last_seq_of_its_epoch_or_is_refused(store):
    run = create(store, "r")
    [hole] = store.commit([RunWrite(key=run.key, epoch=1, first_seq=3, frames=[b"{}"])])
    [older] = store.commit([RunWrite(key=run.key, epoch=0, first_seq=2, frames=[b"{}"])])
    assert isinstance(hole, LeaseLost)
    assert isinstance(older, LeaseLost)
    end(store, run)
    [ended] = store.commit([RunWrite(key=run.key, epoch=1, first_seq=3, frames=[b"{}"])])
    assert isinstance(ended, LeaseLost)


def test_only_the_newest_ended_runs_are_remembered(store, monkeypatch):
    monkeypatch.setattr(memory, "ENDED_RUNS", 2)
    for number in range(4):
        end(store, create(store, f"r{number}"))
    live = create(store, "live")
    assert [run.run_id for run in store.page(owner=OWNER, scope="", query=RunQuery()).runs] == ["live", "r3", "r2"]
    assert store.read_frames(live.key, after=0, max_bytes=1) != []
    assert store.get(owner=OWNER, scope="", run_id="r0") is None


def test_what_a_conversation_store_raises_refuses_the_write_of_its_run_and_no_other(store):
    class Broken:
        def save(self, saved):
            raise KeyError("thread")

    bad, good = create(store, "bad"), create(store, "good")
    turn = TurnSave(run=bad.key, through_seq=2, size=1)
    broken = RunWrite(key=bad.key, epoch=1, first_seq=2, frames=[b"a"], conversation=Broken(), turns=[turn])
    refusal, done = store.commit([broken, RunWrite(key=good.key, epoch=1, first_seq=2, frames=[b"a"])])
    assert isinstance(refusal, UnstorableWrite)
    assert done is None
    progress = store.progress([bad.key, good.key])
    assert [progress[run.key][0] for run in (bad, good)] == [1, 2]
