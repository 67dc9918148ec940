import asyncio
import gc
import json
import threading
import weakref
from unittest.mock import Mock

import pytest

from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.models import Gate, Text
from tests.core.plans import events, plan, start, types


async def collect(follower):
    return [(batch.first_seq, batch.frames) async for batch in follower]


def test_viewers_that_join_at_any_moment_see_every_frame_once_and_in_order():
    script = [[Text("x" * 3000, chunk=1)]]
    run_plan = plan(script)
    run = start(run_plan)
    results = [None] * 40

    def view(index):
        after = 0
        frames = []
        for batch in get_engine().follow(run, store=run_plan.store, after=index * 60):
            assert batch.first_seq == index * 60 + after + 1
            after += len(batch.frames)
            frames += batch.frames
        results[index] = frames

    viewers = [threading.Thread(target=view, args=(index,)) for index in range(40)]
    for viewer in viewers:
        viewer.start()
    whole = [json.dumps(event) for event in events(run_plan, run)]
    for viewer in viewers:
        viewer.join()
    for index, frames in enumerate(results):
        assert [json.dumps(json.loads(frame)) for frame in frames] == whole[index * 60 :]


def test_async_and_plain_followers_yield_the_same():
    run_plan = plan([[Text("abc", chunk=1)]])
    run = start(run_plan)
    plain = events(run_plan, run)
    batches = asyncio.run(collect(get_engine().follow(run, store=run_plan.store)))
    assert [json.loads(frame) for _, frames in batches for frame in frames] == plain


def test_a_viewer_of_a_run_that_begins_here_reads_nothing_from_the_store(monkeypatch):
    run_plan, reads = plan(), []
    real = MemoryRunStore.read_frames
    monkeypatch.setattr(MemoryRunStore, "read_frames", lambda *args, **seqs: reads.append(seqs) or real(*args, **seqs))
    assert types(events(run_plan))[0] == "RUN_STARTED"
    assert reads == []


def test_silence_yields_batches_without_frames_and_loses_nothing():
    gate = Gate()
    run_plan = plan([[Text("a"), gate, Text("b")]])
    run = start(run_plan)

    async def view():
        silent, frames = 0, []
        async for batch in get_engine().follow(run, store=run_plan.store, idle_seconds=0.05):
            frames += batch.frames
            if not batch.frames:
                silent += 1
                if silent == 3:
                    gate.open()
        return silent, frames

    silent, frames = asyncio.run(view())
    assert silent >= 3
    assert types([json.loads(frame) for frame in frames]) == types(events(run_plan, run))


def test_a_viewer_that_leaves_changes_nothing_for_the_run_or_for_others():
    gate = Gate()
    run_plan = plan([[Text("a"), gate, Text("b")]])
    run = start(run_plan)
    gate.wait_reached()

    async def leave():
        async for _ in get_engine().follow(run, store=run_plan.store):
            break

    asyncio.run(leave())
    gate.open()
    assert types(events(run_plan, run))[-1] == "RUN_FINISHED"


def test_a_cursor_at_the_end_of_an_ended_run_yields_nothing():
    run_plan = plan()
    run = start(run_plan)
    whole = events(run_plan, run)
    assert events(run_plan, run, after=len(whole)) == []


def test_frames_that_left_memory_are_read_from_the_store(settings):
    settings.DJANGO_PYDANTIC_AGENT = {"LIVE_TAIL_BYTES": 1}
    gate = Gate()
    run_plan = plan([[Text("x" * 500, chunk=1), gate, Text("y")]])
    run = start(run_plan)
    gate.wait_reached()
    gate.open()
    found = events(run_plan, run)
    assert "".join(event.get("delta", "") for event in found) == "x" * 500 + "y"


def test_the_watcher_follows_a_run_that_another_process_executes(settings):
    settings.DJANGO_PYDANTIC_AGENT = {"POLL_SECONDS": 0.01}
    run_plan = plan()
    run = run_plan.store.create(_new(run_plan), on_commit=lambda *_: None)
    seen = threading.Event()
    found = []

    def view():
        for batch in get_engine().follow(run, store=run_plan.store):
            found.extend(batch.frames)
            seen.set()

    viewer = threading.Thread(target=view)
    viewer.start()
    assert seen.wait(10)
    seen.clear()
    write = RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, frames=[b'{"n":2}', b'{"n":3}'])
    assert run_plan.store.commit([write]) == [None]
    assert seen.wait(10)
    assert found[1:] == [b'{"n":2}', b'{"n":3}']
    from django_pydantic_agent.stores.writes import Ending

    ending = Ending(status=RunStatus.FINISHED, frame=lambda revision: b"{}")
    assert run_plan.store.commit([RunWrite(key=run.key, epoch=1, first_seq=4, ending=ending)]) == [None]
    viewer.join(10)
    assert not viewer.is_alive()
    assert len(found) == 4


def test_a_deleted_run_ends_its_viewers():
    log = LiveLog(plan().store, 1, last_seq=3, status=RunStatus.RUNNING)
    threading.Timer(0.05, log.vanish).start()
    assert log.wait(3, 10)
    assert log.ended


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("gone", ["deleted", "pruned"])
def test_a_viewer_knows_where_the_rest_of_its_run_is_not_kept(gone, kind, monkeypatch):
    run_plan = plan()
    run = run_plan.store.create(_new(run_plan), on_commit=lambda *_: None)
    follower = get_engine().follow(run, store=run_plan.store, after=1)
    if gone == "deleted":
        follower.log.vanish()
    else:
        follower.log.advance(5, RunStatus.FINISHED)
        monkeypatch.setattr(MemoryRunStore, "read_frames", Mock(side_effect=LogPruned(9)))
    assert (list(follower) if kind == "plain" else asyncio.run(collect(follower))) == []
    assert follower.viewer.misses_rest


def test_a_viewer_that_has_seen_its_run_to_the_end_misses_nothing():
    run_plan = plan()
    run = start(run_plan)
    follower = get_engine().follow(run, store=run_plan.store)
    assert list(follower)
    assert not follower.viewer.misses_rest


@pytest.mark.parametrize("viewers", [200])
def test_one_loop_is_woken_once_however_many_viewers_it_has(viewers):
    async def main():
        log = LiveLog(plan().store, 1, last_seq=1, status=RunStatus.RUNNING)
        waiting = [asyncio.ensure_future(log.wait_async(1, 10)) for _ in range(viewers)]
        await asyncio.sleep(0)
        calls = []
        loop = asyncio.get_running_loop()
        original = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *args, **kwargs: (calls.append(args), original(*args, **kwargs))[1]
        await asyncio.to_thread(log.publish, 2, [b"{}"], None)
        assert await asyncio.gather(*waiting) == [True] * viewers
        return sum(1 for args in calls if "_wake" in repr(args[0]))

    assert asyncio.run(main()) == 1


def test_a_loop_that_is_closed_is_forgotten_with_its_viewers():
    log = LiveLog(plan().store, 1, last_seq=1, status=RunStatus.RUNNING)

    async def view():
        assert not await log.wait_async(1, 0.01)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(view())
    log.publish(2, [b"{}"], None)
    gc.collect()
    assert loop() is None


def _new(run_plan):
    from django_pydantic_agent.runs.opening import new_run

    return new_run(run_plan)
