"""The command that keeps logs small."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from django_pydantic_agent.contrib.store import retention
from django_pydantic_agent.contrib.store.models import Run, RunFrames, ToolEffect
from django_pydantic_agent.contrib.store.run_log import RunLog
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore, new_row
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.base import StoredRun
from tests.store.factories import ending
from tests.store.test_run_log import TERMINAL
from tests.store.test_run_store import ADA, create, read, write

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = b'{"type":"CUSTOM","name":"n","value":1}'


@pytest.fixture
def store() -> DatabaseRunStore:
    return DatabaseRunStore()


def ended(
    store: DatabaseRunStore, run_id: str = "run", *, days_ago: float = 10, status: RunStatus = RunStatus.FINISHED
) -> StoredRun:
    """Return a run of four events that ended so long ago."""
    run = create(store, run_id)
    store.commit([write(run, 2, EVENT, EVENT, begins=True)])
    interrupts = [{"id": "i"}] if status is RunStatus.INTERRUPTED else []
    assert store.commit([write(run, 4, ending=ending(status, frame=TERMINAL, interrupts=interrupts))]) == [None]
    store.tidy(run.key)
    Run.objects.filter(pk=run.key).update(finished_at=datetime.now(UTC) - timedelta(days=days_ago))
    return run


def prune(*arguments: str) -> str:
    out = StringIO()
    call_command("prune_logs", *arguments, stdout=out)
    return out.getvalue()


def kept(store: DatabaseRunStore) -> dict[str, int]:
    """Return how many events of each run are kept."""
    return {
        row.run_id: sum(last - first + 1 for first, last in row.frames.values_list("first_seq", "last_seq"))
        for row in Run.objects.all()
    }


class TestWhatGoes:
    def test_logs_go_that_are_older_than_the_setting_says(self, store, settings):
        settings.DJANGO_PYDANTIC_AGENT = {"LOG_RETENTION_DAYS": 7}
        for days in (6.9, 7.1, 100):
            ended(store, str(days), days_ago=days)
        assert "2 logs with 8 events dropped" in prune()
        assert kept(store) == {"6.9": 4, "7.1": 0, "100": 0}

    def test_without_a_setting_nothing_goes(self, store):
        ended(store, days_ago=30_000)
        assert "No log is dropped" in prune()
        assert kept(store) == {"run": 4}

    def test_the_argument_wins_over_the_setting(self, store, settings):
        settings.DJANGO_PYDANTIC_AGENT = {"LOG_RETENTION_DAYS": 7}
        ended(store, days_ago=10)
        prune("--older-than=11")
        assert kept(store) == {"run": 4}
        prune("--older-than=0")
        assert kept(store) == {"run": 0}

    def test_everything_else_of_the_run_stays(self, store):
        run = ended(store)
        before = Run.objects.values().get()
        prune("--older-than=1")
        after = Run.objects.values().get()
        assert after == {**before, "first_seq": 5, "folded": after["folded"]}
        folded = store.folded(run.key).frames
        assert (folded[0], folded[-1]) == (b'{"type":"RUN_STARTED"}', TERMINAL)
        assert store.get(owner=ADA, scope="", run_id="run").last_seq == 4
        assert store.first_seq(run.key) == 5

    def test_a_dry_run_tells_how_much_would_go_and_changes_nothing(self, store):
        for number in range(3):
            ended(store, str(number))
        create(store, "live")
        before = [list(model.objects.order_by("pk").values_list()) for model in (Run, RunFrames)]
        assert "3 logs with 12 events would be dropped" in prune("--older-than=1", "--dry-run")
        assert [list(model.objects.order_by("pk").values_list()) for model in (Run, RunFrames)] == before

    def test_C43_live_and_waiting_runs_and_those_with_unresolved_effects_keep_their_logs(self, store):
        create(store, "queued")
        store.commit([write(create(store, "running"), 2, b"a", begins=True)])
        waiting = ended(store, "waiting", status=RunStatus.INTERRUPTED)
        unresolved = ended(store, "unresolved", status=RunStatus.FAILED)
        ToolEffect.objects.create(
            run_id=unresolved.key, tool_call_id="c", call_digest="c", tool_name="t", status="started",
            started_at=unresolved.started_at,
        )  # fmt: skip
        new_row(ADA, "", run_id="delegate", is_ledger_only=True, created_at=unresolved.started_at).save()
        for status in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ORPHANED):
            ended(store, status, status=status)
        prune("--older-than=0")
        assert kept(store) == {
            "queued": 1,
            "running": 2,
            "waiting": 4,
            "unresolved": 4,
            "delegate": 0,
            "finished": 0,
            "failed": 0,
            "cancelled": 0,
            "orphaned": 0,
        }
        ToolEffect.objects.update(status="failed")
        store.give_up(waiting.key, Decision.CANCELLED, conversation=None)
        prune("--older-than=0")
        assert (kept(store)["unresolved"], kept(store)["waiting"]) == (0, 0)

    def test_repeating_it_does_nothing(self, store):
        ended(store)
        prune("--older-than=1")
        before = Run.objects.values().get()
        assert "0 logs with 0 events dropped" in prune("--older-than=1")
        assert Run.objects.values().get() == before


class TestHow:
    def test_C43_any_number_of_runs_goes_in_short_reads(self, store, monkeypatch):
        monkeypatch.setattr(retention, "RUNS_PER_READ", 10)
        for number in range(25):
            ended(store, str(number), days_ago=1 + number % 2 * 10)
        assert "12 logs with 48 events dropped" in prune("--older-than=5")
        assert "13 logs with 52 events dropped" in prune("--older-than=0.5")
        assert not RunFrames.objects.exists()

    def test_a_transaction_drops_as_many_stretches_as_it_is_told_to(self, store, monkeypatch):
        run = create(store)
        for seq in range(2, 12):
            store.commit([write(run, seq, b'{"type":"CUSTOM","value":"%s"}' % (b"a" * 200_000), begins=seq == 2)])
        store.commit([write(run, 12, ending=ending(frame=TERMINAL))])
        dropped: list[int] = []
        drop = RunLog.drop

        def counted(log: RunLog, **arguments: Any) -> bool:
            before = RunFrames.objects.count()
            result = drop(log, **arguments)
            dropped.append(before - RunFrames.objects.count())
            return result

        monkeypatch.setattr(RunLog, "drop", counted)
        prune("--older-than=0", "--batch-size=4")
        assert dropped == [4, 4, 3, 0] or dropped == [4, 4, 2, 0]

    def test_one_log_that_cannot_be_dropped_holds_up_no_other(self, store, monkeypatch, caplog):
        runs = [ended(store, str(number)) for number in range(3)]
        drop = RunLog.drop

        def refusing(log: RunLog, **arguments: Any) -> bool:
            if log.run == runs[1].key:
                raise DatabaseError("torn page")
            return drop(log, **arguments)

        monkeypatch.setattr(RunLog, "drop", refusing)
        with pytest.raises(CommandError, match="1 log could not be dealt with"):
            prune("--older-than=1")
        assert kept(store) == {"0": 0, "1": 4, "2": 0}
        assert "torn page" in caplog.text

    def test_logs_are_tidied_whose_process_died_before_it_did_so(self, store):
        run, live = create(store), create(store, "live")
        for one in (run, live):
            store.commit([write(one, 2, EVENT, begins=True)])
        store.commit([write(run, 3, EVENT, ending=ending(frame=TERMINAL))])
        whole = read(store, run)
        assert "1 log with 4 events tidied" in prune()
        assert list(RunFrames.objects.filter(run=run.key).values_list("is_compressed", flat=True)) == [True]
        assert not RunFrames.objects.filter(run=live.key, is_compressed=True).exists()
        assert read(store, run) == whole
        assert "0 logs" in prune()


@pytest.mark.parametrize(
    "arguments", [["--older-than", value] for value in ("-1", "nan", "inf", "1e9", "soon", "")]
    + [["--batch-size", value] for value in ("0", "-5", "1.5", "many")],
)  # fmt: skip
def test_an_argument_that_makes_no_sense_is_refused_before_anything_happens(store, arguments):
    ended(store)
    with pytest.raises(CommandError, match="is not a"):
        prune("--older-than=0", *arguments)
    assert kept(store) == {"run": 4}
