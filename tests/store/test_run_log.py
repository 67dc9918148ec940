"""The log of a run in the database, at rest and while it gets shorter."""

import random
from typing import Any

import pytest
from django.db import OperationalError

from django_ag_ui.api.sse import RunStream
from django_ag_ui.conf import build_ag_ui_config
from django_pydantic_agent.contrib.store import run_log
from django_pydantic_agent.contrib.store.models import Run, RunFrames
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.stores.base import StoredRun
from tests.api.posting import parse
from tests.store.factories import ending
from tests.store.test_run_store import create, in_threads, read, write

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = 1 << 30
TERMINAL = b'{"type":"RUN_FINISHED"}'

merged = pytest.mark.parametrize("merged", [False, True], ids=["loose", "merged"])


@pytest.fixture
def store() -> DatabaseRunStore:
    return DatabaseRunStore()


def ended_run(store: DatabaseRunStore, frames: list[bytes], *, per_commit: int = 7, merged: bool = False) -> StoredRun:
    """Return an ended run of `frames` between its first and its last one, as it was when it was created."""
    run = create(store)
    for start in range(0, len(frames), per_commit):
        assert store.commit([write(run, start + 2, *frames[start : start + per_commit], begins=not start)]) == [None]
    assert store.commit([write(run, len(frames) + 2, ending=ending(frame=TERMINAL))]) == [None]
    if merged:
        store.tidy(run.key)
    return run


def log_of(store: DatabaseRunStore, run: StoredRun) -> RunLog:
    return RunLog(run=run.key, using=store._alias)


def numbered(count: int, width: int = 1) -> list[bytes]:
    return [b'{"number":%d}' % number * width for number in range(count)]


class TestMerge:
    def replay(self, store: DatabaseRunStore, run: StoredRun, max_bytes: int) -> list[bytes]:
        frames: list[bytes] = []
        while more := read(store, run, after=len(frames), max_bytes=max_bytes):
            frames += more
        return frames

    @pytest.mark.parametrize("per_commit", [1, 3, 100])
    def test_merged_and_original_replay_are_equal_event_by_event(self, store, per_commit):
        noise = random.Random(1)
        large = [noise.randbytes(size).replace(b"\n", b"") for size in (4_500_000, 300_000, 1)]
        frames = [*numbered(9), *large[:2], b"{}", *numbered(9, 4_000), *large[2:], *numbered(3)]
        run = ended_run(store, frames, per_commit=per_commit)
        original = [read(store, run, after=seq, max_bytes=1) for seq in range(len(frames) + 3)]
        store.tidy(run.key)
        assert not RunFrames.objects.filter(is_compressed=False).exists()
        assert RunFrames.objects.filter(piece__gt=0).exists()
        assert [read(store, run, after=seq, max_bytes=1) for seq in range(len(frames) + 3)] == original
        for max_bytes in (0, 1_000, 300_000, WHOLE):
            assert self.replay(store, run, max_bytes) == [frame for frames in original for frame in frames]

    def test_a_log_that_is_merged_in_the_middle_of_a_read_reads_the_same(self, store, monkeypatch):
        run = ended_run(store, numbered(600, 100))
        whole = read(store, run, max_bytes=WHOLE)
        last_within = run_log._last_within

        def merge_meanwhile(*args: Any) -> Any:
            last = last_within(*args)
            monkeypatch.setattr(run_log, "_last_within", last_within)
            store.tidy(run.key)
            return last

        for max_bytes in (1, 10_000, WHOLE):
            monkeypatch.setattr(run_log, "_last_within", merge_meanwhile)
            frames = read(store, run, after=50, max_bytes=max_bytes)
            assert frames == whole[50 : 50 + len(frames)]
            assert frames
        assert not RunFrames.objects.filter(is_compressed=False).exists()


class TestDrop:
    @merged
    def test_C20_a_cursor_before_the_last_100_of_1000_events_is_refused_and_the_others_go_on(self, store, merged):
        run = ended_run(store, numbered(998), merged=merged)
        whole = read(store, run, max_bytes=WHOLE)
        while log_of(store, run).drop(through=900, stretches=1000):
            pass
        assert store.first_seq(run.key) == 901
        for after in (0, 10, 899):
            with pytest.raises(LogPruned) as refusal:
                read(store, run, after=after)
            assert refusal.value.first_seq == 901
        for after in (900, 950, 999, 1000, 1001):
            assert read(store, run, after=after) == whole[after:]

    @merged
    def test_what_is_left_is_a_whole_suffix_after_every_transaction(self, store, merged):
        run = ended_run(store, numbered(200, 2_000), merged=merged)
        whole = read(store, run, max_bytes=WHOLE)
        transactions = 0
        while log_of(store, run).drop(through=150, stretches=1):
            transactions += 1
            first_seq = store.first_seq(run.key)
            assert read(store, run, after=first_seq - 1, max_bytes=WHOLE) == whole[first_seq - 1 :]
            with pytest.raises(LogPruned):
                read(store, run, after=first_seq - 2)
        assert transactions > 5
        assert store.first_seq(run.key) == 151

    @merged
    def test_all_of_a_log_can_go(self, store, merged):
        run = ended_run(store, numbered(30), merged=merged)
        assert log_of(store, run).drop(through=32, stretches=1000)
        assert not log_of(store, run).drop(through=32, stretches=1000)
        assert not RunFrames.objects.exists()
        assert store.first_seq(run.key) == 33
        with pytest.raises(LogPruned):
            read(store, run, after=31)
        assert read(store, run, after=32) == []

    def test_what_is_left_is_merged_like_any_log(self, store):
        run = ended_run(store, numbered(100))
        whole = read(store, run, max_bytes=WHOLE)
        log_of(store, run).drop(through=40, stretches=1000)
        store.tidy(run.key)
        assert read(store, run, after=40) == whole[40:]

    def test_a_log_that_is_dropped_in_the_middle_of_a_read_is_never_read_with_a_hole(self, store, monkeypatch):
        run = ended_run(store, numbered(100))
        last_within = run_log._last_within

        def drop_meanwhile(*args: Any) -> Any:
            last = last_within(*args)
            log_of(store, run).drop(through=50, stretches=1000)
            return last

        monkeypatch.setattr(run_log, "_last_within", drop_meanwhile)
        with pytest.raises(LogPruned):
            read(store, run, after=20)

    def test_many_who_drop_and_read_at_once_meet_whole_suffixes_only(self, store):
        run = ended_run(store, numbered(300, 500))
        whole = read(store, run, max_bytes=WHOLE)

        def drop() -> None:
            while log_of(store, run).drop(through=250, stretches=2):
                pass

        def read_all() -> None:
            frames: list[bytes] = []
            while more := read(store, run, after=len(frames), max_bytes=20_000):
                assert more == whole[len(frames) : len(frames) + len(more)]
                frames += more
            assert frames == whole

        actions = iter([drop, read_all] * 3)
        results = in_threads(6, lambda: next(actions)())
        assert all(result is None or isinstance(result, LogPruned | OperationalError) for result in results)
        drop()
        assert read(store, run, after=250, max_bytes=WHOLE) == whole[250:]

    @pytest.mark.parametrize("resumes", [False, True])
    def test_C20_a_slow_viewer_of_a_log_that_is_dropped_is_sent_away_and_sees_no_hole(self, store, resumes):
        run = ended_run(store, [b'{"type":"TEXT_MESSAGE_CONTENT","delta":"%s"}' % (b"x" * 10_000)] * 300)
        ended = store.by_key(run.key, owner=run.owner)
        stream = RunStream(
            ended.run_id,
            lambda idle_seconds: get_engine().follow(ended, store=store, idle_seconds=idle_seconds),
            access=None,
            config=build_ag_ui_config(),
            is_older=False,
            resumes=resumes,
            max_seconds=None,
        )
        sent = b""
        for piece in stream.blocking():
            sent += piece
            log_of(store, run).drop(through=290, stretches=1000)
        seen = parse(sent)
        numbers = [frame.seq for frame in seen if frame.seq is not None]
        assert numbers == list(range(1, len(numbers) + 1))
        assert 0 < len(numbers) < 290
        farewell = [frame.event["code"] for frame in seen if frame.seq is None]
        assert farewell == ([] if resumes else ["detached"])

    def test_a_run_that_is_gone_has_nothing_to_drop(self, store):
        run = ended_run(store, numbered(3))
        Run.objects.all().delete()
        assert not log_of(store, run).drop(through=5, stretches=1)
        assert store.first_seq(run.key) == 1
        assert read(store, run) == []
