"""Every run store keeps what is asked, and takes one decision on it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.exceptions import InterruptDecided
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.approvals import Answer, AskedCall
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import TurnStart
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.stores.memory_conversations import MemoryConversationStore
from django_pydantic_agent.stores.writes import Ending, RunWrite
from tests.core.plans import OWNER, plan

pytestmark = pytest.mark.django_db
THREAD = {"owner": OWNER, "scope": "", "server": "ag_ui", "thread_id": "thread-1"}
Create = Callable[..., StoredRun]


@pytest.fixture(params=[MemoryRunStore, DatabaseRunStore])
def store(request: pytest.FixtureRequest) -> RunStore:
    made: RunStore = request.param()
    return made


@pytest.fixture
def create(store: RunStore) -> Create:
    def create(run_id: str, **fields: Any) -> StoredRun:
        new = replace(new_run(plan(store=store, run_id=run_id)), thread_id="thread-1", **fields)
        return store.create(new, on_commit=lambda *_: None)

    return create


@pytest.fixture
def asking(store: RunStore, create: Create) -> StoredRun:
    """A run that has ended with two questions."""
    run = create("asking")
    ending = Ending(
        status=RunStatus.INTERRUPTED,
        frame=lambda revision: b"{}",
        interrupts=[{"id": "i1", "toolCallId": "c1"}, {"id": "i2", "toolCallId": "c2"}],
        asked_calls={"i1": AskedCall("erase", '{"n": 2512292042121000001}')},
        pending_calls=["c3"],
    )
    write = RunWrite(key=run.key, epoch=run.epoch, first_seq=2, begins=True, ending=ending)
    assert store.commit([write]) == [None]
    return run


def answer(run: StoredRun, id_: str, decision: Decision = Decision.APPROVED) -> Answer:
    return Answer(run=run.key, id=id_, decision=decision, said={"approved": decision is Decision.APPROVED, "n": 2**60})


def decisions(store: RunStore, run: StoredRun) -> list[Decision]:
    return [interrupt.decision for interrupt in store.interrupts(run.key)]


def test_what_a_run_asks_is_kept_as_it_was_asked(store: RunStore, asking: StoredRun):
    found = store.asked_by("i2", **THREAD)
    assert found is not None
    assert (found.key, [asked["id"] for asked in found.interrupts]) == (asking.key, ["i1", "i2"])
    assert (found.pending_interrupts, found.pending_calls) == (2, ["c3"])
    one, two = store.interrupts(asking.key)
    assert (one.call, two.call) == (AskedCall("erase", '{"n": 2512292042121000001}'), AskedCall("", ""))
    assert store.undecided(**THREAD) == [asking.key]
    assert store.asked_by("i1", **THREAD | {"thread_id": "other"}) is None
    assert store.asked_by("i1", **THREAD | {"owner": None}) is None


def test_what_a_run_asks_is_asked_at_its_own_mount(store: RunStore, asking: StoredRun):
    for server in ("other", "AG_UI"):
        assert store.asked_by("i1", **THREAD | {"server": server}) is None
        assert store.undecided(**THREAD | {"server": server}) == []


def test_a_decision_is_written_with_the_run_that_brings_it(store: RunStore, asking: StoredRun, create: Create):
    run = create("r2", answers=[answer(asking, "i1"), answer(asking, "i2", Decision.DENIED)], decider="user:1")
    assert decisions(store, asking) == [Decision.APPROVED, Decision.DENIED]
    brought = store.answers(run.key)
    assert [(found.id, found.answer) for found in brought] == [
        ("i1", {"approved": True, "n": 2**60}),
        ("i2", {"approved": False, "n": 2**60}),
    ]
    assert (store.undecided(**THREAD), store.by_key(asking.key, owner=OWNER).interrupts) == ([], [])  # type: ignore[union-attr]


def test_the_second_decision_leaves_no_run_and_changes_nothing(store: RunStore, asking: StoredRun, create: Create):
    create("r2", answers=[answer(asking, "i2")])
    with pytest.raises(InterruptDecided):
        create("r3", answers=[answer(asking, "i1"), answer(asking, "i2", Decision.DENIED)])
    assert store.get(owner=OWNER, scope="", run_id="r3") is None
    assert decisions(store, asking) == [Decision.PENDING, Decision.APPROVED]


def test_what_is_given_up_is_decided_once(store: RunStore, asking: StoredRun, create: Create):
    create("r2", answers=[answer(asking, "i1")])
    create("r3", gives_up=[asking.key])
    assert store.give_up(asking.key, Decision.EXPIRED, conversation=None) == []
    assert decisions(store, asking) == [Decision.APPROVED, Decision.CANCELLED]
    assert store.answers(store.interrupts(asking.key)[1].decided_by or 0) == []


def test_what_is_given_up_is_named(store: RunStore, asking: StoredRun, create: Create):
    create("r2", answers=[answer(asking, "i1")])
    assert store.give_up(asking.key, Decision.CANCELLED, conversation=None) == ["i2"]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_what_a_run_asks_that_was_replaced_waits_for_nobody(store: RunStore, create: Create, is_replaced: bool):
    conversation = DefaultConversationStore() if store.durable else MemoryConversationStore()

    def turn(run_id: str, **fields: Any) -> StoredRun:
        question = {"id": f"u-{run_id}", "role": "user", "content": "go"}
        start = TurnStart(owner=OWNER, thread_id="thread-1", messages=[question], **fields)
        return create(run_id, conversation=conversation, turn=start)

    asking = turn("asking", revision=None)
    if is_replaced:
        turn("better", revision=1, supersede_from=0)
    ending = Ending(status=RunStatus.INTERRUPTED, frame=lambda revision: b"{}", interrupts=[{"id": "i1"}])
    write = RunWrite(
        key=asking.key, epoch=asking.epoch, first_seq=2, begins=True, ending=ending, conversation=conversation
    )
    assert store.commit([write]) == [None]
    assert decisions(store, asking) == [Decision.CANCELLED if is_replaced else Decision.PENDING]
    assert write.asks_nobody is is_replaced
    assert store.undecided(**THREAD) == ([] if is_replaced else [asking.key])
