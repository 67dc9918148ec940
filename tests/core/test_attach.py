"""Attaching to runs in their stores: the preamble at every seq, and following on from there."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ag_ui.core import StateDeltaEvent
from django.db import DEFAULT_DB_ALIAS
from pydantic_ai import Agent

from django_ag_ui.api.sse import for_older_viewer
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.contrib.store.models import Run, RunFrames
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.exceptions import RunNotFound
from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.log.preamble import STATE_SNAPSHOT, Preamble, messages_told
from django_pydantic_agent.runs import attach
from django_pydantic_agent.runs.attach import keep_fold, preamble
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.testing.models import Gate, Reasoning, ScriptedModel, Text
from tests.core.folding import frames_of, projected, seen
from tests.core.plans import plan, start, stored
from tests.core.replays import Replay, Stores, stores
from tests.core.streams import STREAMS, USER, Stream, run, text

pytestmark = pytest.mark.django_db(transaction=True)

RECORDED = ["text", "reasoning", "parallel tools", "state", "activity", "subagents", "metadata", "error", "cancel"]
KINDS = ["memory", "memory thread", "database", "database thread"]
USER_JSON = wire_form(USER)


def told(replay: Replay) -> Preamble:
    """Return the preamble that a viewer gets now, who has read of the run when it was accepted."""
    return preamble(replay.run, store=replay.stores.runs, conversation=replay.stores.conversation)


def turn(kept: Stores, name: str = "text", **fields: Any) -> Replay:
    """Return a run of its own question, `q-<name>`, in the stores."""
    question = {"id": f"q-{name}", "role": "user", "content": "?"}
    frames = frames_of(Stream(run(text(f"a-{name}", "an", "swer"))))
    started = json.loads(frames[0])
    started["input"]["messages"] = [question]
    return Replay(kept, [json.dumps(started, separators=(",", ":")).encode(), *frames[1:]], [question], **fields)


def prune(replay: Replay) -> None:
    """Throw the log of a run away."""
    if isinstance(replay.stores.runs, MemoryRunStore):
        replay.stores.runs._entries[replay.run.key].frames.clear()
    else:
        log = RunLog(run=replay.run.key, using=DEFAULT_DB_ALIAS)
        while log.drop(through=replay.seq, stretches=1):
            pass


@pytest.mark.node
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*RECORDED, "interrupt"])
def test_who_attaches_at_any_seq_ends_with_what_everybody_has(client, kind, name):
    kept = stores(kind)
    before, state = [], STREAMS[name].state
    if "thread" in kind:
        earlier = turn(kept).finish()
        before = messages_told(told(earlier).frames)
        assert len(before) == 2
    frames = frames_of(STREAMS[name])
    everybody = seen(projected(Stream([], before, state), frames))
    replay = Replay(kept, frames, [USER_JSON], state)
    for seq in range(1, len(frames) + 1):
        if seq > 1:
            replay.append(save=seq % 3 == 0)
        now = told(replay)
        assert now.seq == seq
        sent = [*now.frames, *frames[seq:]]
        assert client.answers(Stream([]), sent) == [everybody], seq
        older = [for_older_viewer(frame) for frame in sent]
        assert client.answers(Stream([]), older, version="0.0.59") == [everybody], seq


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_waits_for_its_turn_is_told_with_its_question(kind):
    kept = stores(kind)
    turn(kept).finish()
    frames = told(turn(kept, "next", state={"n": 1})).frames
    assert [json.loads(frame)["type"] for frame in frames][:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert json.loads(frames[1])["snapshot"] == {"n": 1}
    earlier = ["q-text", "a-text"] if "thread" in kind else []
    assert [message["id"] for message in messages_told(frames)] == [*earlier, "q-next"]


@pytest.mark.parametrize("kind", ["memory thread", "database thread"])
def test_an_earlier_run_is_told_as_it_ended_whatever_later_ones_did(kind):
    kept = stores(kind)
    first = Replay(kept, frames_of(STREAMS["state"]), [USER_JSON]).finish()
    then = told(first)
    late = StateDeltaEvent(delta=[{"op": "add", "path": "/late", "value": 1}])
    Replay(kept, frames_of(Stream(run(text("m9"), late))), [{**USER_JSON, "id": "u9"}]).finish()
    assert told(first) == then
    assert json.loads(then.frames[1])["snapshot"] == {"end": 0}


@pytest.mark.parametrize("kind", ["memory thread", "database thread"])
def test_the_state_that_the_client_posted_lies_over_the_one_of_the_thread(kind):
    kept = stores(kind)
    Replay(kept, frames_of(STREAMS["state"]), [USER_JSON]).finish()
    added = StateDeltaEvent(delta=[{"op": "add", "path": "/posted/-", "value": 2}])
    replay = Replay(kept, frames_of(Stream(run(added))), [{**USER_JSON, "id": "u2"}], {"posted": [1]})
    assert json.loads(told(replay).frames[1])["snapshot"] == {"end": 0, "posted": [1]}
    replay.append()
    assert json.loads(told(replay).frames[1])["snapshot"] == {"end": 0, "posted": [1, 2]}


@pytest.mark.parametrize("kind", ["memory", "database"])
def test_a_run_that_continues_another_is_told_with_what_that_one_said(kind):
    kept = stores(kind)
    first = turn(kept, "first").finish()
    second = turn(kept, "second", parent=first.run).finish()
    third = turn(kept, "third", parent=second.run)
    ids = ["q-first", "a-first", "q-second", "a-second", "q-third"]
    before = told(third)
    assert [message["id"] for message in messages_told(before.frames)] == ids
    keep_fold(second.run, store=kept.runs, conversation=None)
    assert told(third) == before


def test_a_run_that_continues_one_of_a_thread_is_told_what_is_left_of_that():
    kept = stores("database thread")
    first = turn(kept, "first").finish()
    outside = Stores(kept.runs)
    second = turn(outside, "second", parent=first.run)
    assert [message["id"] for message in messages_told(told(second).frames)] == ["q-first", "a-first", "q-second"]
    keep_fold(first.run, store=kept.runs, conversation=kept.conversation)
    prune(first)
    assert [message["id"] for message in messages_told(told(second).frames)] == ["q-first", "q-second"]


def test_a_run_whose_predecessor_is_pruned_while_it_is_looked_at_is_told_whole(monkeypatch):
    kept = stores("database")
    first = turn(kept, "first").finish()
    second = turn(kept, "second", parent=first.run)
    before = told(second)
    look = kept.runs.folded

    def prunes_behind(key):
        found = look(key)
        if key == first.run.key and not found.frames:
            monkeypatch.undo()
            keep_fold(first.run, store=kept.runs, conversation=None)
            prune(first)
        return found

    monkeypatch.setattr(kept.runs, "folded", prunes_behind)
    assert told(second) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RECORDED)
def test_what_is_kept_of_an_ended_run_tells_the_same_without_its_log(kind, name):
    kept = stores(kind)
    if "thread" in kind:
        turn(kept).finish()
    replay = Replay(kept, frames_of(STREAMS[name]), [USER_JSON], STREAMS[name].state).finish()
    before = told(replay)
    keep_fold(replay.run, store=kept.runs, conversation=kept.conversation)
    prune(replay)
    assert told(replay) == before
    assert any(frame.startswith(STATE_SNAPSHOT) for frame in kept.runs.folded(replay.run.key).frames)
    assert (messages_told(kept.runs.folded(replay.run.key).frames) is None) == ("thread" in kind)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_folded_of_a_run_that_goes_on(kind):
    kept = stores(kind)
    replay = turn(kept)
    keep_fold(replay.run, store=kept.runs, conversation=kept.conversation)
    assert not kept.runs.folded(replay.run.key).frames


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_told_of_a_run_whose_log_is_gone(kind):
    kept = stores(kind)
    replay = turn(kept)
    prune(replay)
    with pytest.raises(RunNotFound):
        told(replay)


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ends_while_it_is_looked_at_is_told_to_its_end(kind, is_pruned, monkeypatch):
    kept = stores(kind)
    replay = turn(kept)
    look = kept.runs.folded

    def ends_behind(key):
        found = look(key)
        if replay.seq < len(replay.frames):
            replay.finish()
            Replay(kept, frames_of(STREAMS["state"]), [USER_JSON]).finish()
            if is_pruned:
                keep_fold(replay.run, store=kept.runs, conversation=kept.conversation)
                prune(replay)
        return found

    monkeypatch.setattr(kept.runs, "folded", ends_behind)
    now = told(replay)
    assert (now.seq, now.frames[-1]) == (len(replay.frames), replay.frames[-1])
    assert json.loads(now.frames[1])["snapshot"] == {}
    assert [message["content"] for message in messages_told(now.frames)] == ["?", "answer"]


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("kind", ["database", "database thread"])
def test_nothing_is_told_of_a_run_that_is_deleted_while_it_is_looked_at(kind, has_ended, monkeypatch):
    kept = stores(kind)
    replay = turn(kept)
    if has_ended:
        replay.finish()
    look = kept.runs.folded

    def is_gone_behind(key):
        found = look(key)
        Run.objects.all().delete()
        return found

    monkeypatch.setattr(kept.runs, "folded", is_gone_behind)
    with pytest.raises(RunNotFound):
        told(replay)


def test_a_long_log_is_folded_once_when_the_run_ends(monkeypatch):
    monkeypatch.setattr(attach, "FOLDED_EVENTS", 20)
    kept = stores("database")
    short, long = (plan([[Text("x" * length, chunk=1)]], store=kept.runs) for length in (5, 50))
    for run_plan in (short, long):
        start(run_plan)
    get_engine().wait()
    assert kept.runs.folded(stored(short).key).frames == ()
    RunFrames.objects.filter(run=stored(long).key).delete()
    (question, answer) = messages_told(preamble(stored(long), store=kept.runs, conversation=None).frames)
    assert (question["content"], answer["content"]) == ("go", "x" * 50)


def test_who_attaches_at_any_moment_of_a_fast_run_loses_and_doubles_nothing():
    gate = Gate()
    turns = [Reasoning("so " * 40, chunk=3), gate, Text("word " * 200, chunk=3)]
    run_plan = plan(agent=Agent(ScriptedModel([turns])), store=stores("database").runs)
    begun = start(run_plan)
    gate.wait_reached()

    def attached(_: int) -> dict[str, Any]:
        try:
            now = preamble(begun, store=run_plan.store, conversation=None)
            follower = get_engine().follow(stored(run_plan), store=run_plan.store, after=now.seq, idle_seconds=30)
            frames = [frame for batch in follower for frame in batch.frames]
            assert now.seq + len(frames) == stored(run_plan).last_seq
            return seen(projected(Stream([]), [*now.frames, *frames]))
        finally:
            release_connections()

    with ThreadPoolExecutor(8) as viewers:
        early = [viewers.submit(attached, number) for number in range(4)]
        gate.open()
        answers = [viewer.result() for viewer in [*early, *(viewers.submit(attached, n) for n in range(40))]]
    frames = run_plan.store.read_frames(begun.key, after=0, max_bytes=10**9)
    everybody = seen(projected(Stream([]), frames))
    assert everybody["messages"][-1]["content"] == "word " * 200
    assert answers == [everybody] * len(answers)
