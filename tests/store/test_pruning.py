"""The command that deletes old threads and runs."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.db import DatabaseError
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.contrib.store import pruning
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import (
    HistoryMessage,
    Interrupt,
    Run,
    RunFrames,
    Snapshot,
    StepEvent,
    Thread,
    ThreadMessage,
    ToolEffect,
)
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.stores.base import Idempotency, StoredRun
from django_pydantic_agent.stores.conversations import TurnStart
from django_pydantic_agent.testing.step_store import effect, event, prompt, snapshot
from tests.store.factories import ending, step_store
from tests.store.test_run_log import TERMINAL
from tests.store.test_run_store import ADA, create, write

pytestmark = pytest.mark.django_db(transaction=True)

VISITOR = Owner.of_bucket("bucket")
ALL = (Run, RunFrames, Interrupt, Thread, ThreadMessage, StepEvent, Snapshot, ToolEffect, HistoryMessage)

store = DatabaseRunStore()


def ended(
    run_id: str = "run",
    *,
    days_ago: float = 10,
    status: RunStatus = RunStatus.FINISHED,
    thread: str = "",
    **fields: Any,
) -> StoredRun:
    """Return a run with a step, a snapshot and an effect that ended so long ago, in a thread where one is named."""
    run = going(run_id, thread=thread, **fields)
    interrupts = [{"id": "i"}] if status is RunStatus.INTERRUPTED else []
    assert store.commit([write(run, 3, ending=ending(status, frame=TERMINAL, interrupts=interrupts))]) == [None]
    if status is RunStatus.INTERRUPTED and thread:
        Thread.objects.for_owner(run.owner, "", thread=thread).update(waiting_run=run.key)
    at = datetime.now(UTC) - timedelta(days=days_ago)
    Run.objects.filter(pk=run.key).update(finished_at=at)
    return run


def going(run_id: str, *, owner: Owner = ADA, thread: str = "", **fields: Any) -> StoredRun:
    run = create(store, run_id, owner, thread_id=thread or "none", **fields)
    steps = step_store(owner)
    if thread:
        found = Thread.objects.for_owner(owner, "", thread=thread).first()
        start = TurnStart(
            owner=owner,
            thread_id=thread,
            revision=found and found.revision,
            messages=[{"id": f"m-{run_id}", "role": "user", "content": "hello"}],
        )
        DefaultConversationStore().accept(start, run=run.key, run_id=run_id)
    async_to_sync(steps.register_run)(RunRecord(run_id=run_id))
    async_to_sync(steps.append_event)(event(run_id))
    async_to_sync(steps.save_snapshot)(snapshot(run_id, prompt("hi"), prompt(run_id)))
    async_to_sync(steps.record_tool_effect)(effect(run_id, "call", status="completed"))
    assert store.commit([write(run, 2, b'{"type":"CUSTOM"}', begins=True)]) == [None]
    return run


def leave_unresolved(run: str, owner: Owner = ADA) -> None:
    async_to_sync(step_store(owner).record_tool_effect)(effect(run, "unknown"))


def prune(*arguments: str) -> str:
    out = StringIO()
    call_command("prune_runs", *arguments, stdout=out)
    return out.getvalue()


def run_ids() -> set[str]:
    return set(Run.objects.values_list("run_id", flat=True))


def everything() -> list[Any]:
    return [list(model.objects.order_by("pk").values_list()) for model in ALL]


class TestWhatGoes:
    def test_C43_what_ended_too_long_ago_goes_with_all_that_belongs_to_it(self):
        for thread in ("", "thread"):
            ended(f"old {thread}", days_ago=7.1, thread=thread)
        assert "1 thread and 1 run outside of threads pruned" in prune("--older-than=7")
        assert everything() == [[]] * len(ALL)

    def test_C43_what_ended_since_then_stays_as_it_was(self):
        for thread in ("", "thread"):
            ended(f"new {thread}", days_ago=6.9, thread=thread)
        before = everything()
        assert "0 threads and 0 runs" in prune("--older-than=7")
        assert everything() == before

    def test_C43_what_is_live_waits_or_is_unresolved_stays_until_it_is_told_to_go(self):
        for thread in ("", "t"):
            create(store, f"queued {thread}")
            going(f"going {thread}", thread=f"{thread}1" if thread else "")
            ended(f"waiting {thread}", status=RunStatus.INTERRUPTED, thread=f"{thread}2" if thread else "")
            ended(f"unresolved {thread}", status=RunStatus.FAILED, thread=f"{thread}3" if thread else "")
            leave_unresolved(f"unresolved {thread}")
            for status in (RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ORPHANED):
                ended(f"{status} {thread}", status=status, thread=f"{thread}{status}" if thread else "")
        ended("above")
        steps = step_store(ADA)
        async_to_sync(steps.register_run)(RunRecord(run_id="delegate", parent_run_id="above"))
        async_to_sync(steps.register_run)(RunRecord(run_id="inner", parent_run_id="delegate"))
        leave_unresolved("inner")

        def both(*names: str) -> set[str]:
            return {f"{name} {thread}" for name in names for thread in ("", "t")}

        prune("--older-than=0")
        delegates = {"above", "delegate", "inner"}
        assert run_ids() == both("queued", "going", "waiting", "unresolved") | delegates
        prune("--older-than=0", "--include-waiting")
        assert run_ids() == both("queued", "going", "unresolved") | delegates
        prune("--older-than=0", "--include-unresolved")
        assert run_ids() == both("queued", "going")

    def test_C43_a_thread_stays_whole_while_one_of_its_runs_does(self):
        ended("old", days_ago=100, thread="thread")
        ended("new", days_ago=1, thread="thread")
        before = everything()
        prune("--older-than=7")
        assert everything() == before
        prune("--older-than=0.5")
        assert everything() == [[]] * len(ALL)

    def test_C43_what_a_kept_run_goes_on_from_stays(self):
        first = ended("first", days_ago=100)
        second = ended("second", days_ago=90, parent=first)
        ended("other", days_ago=90, parent=first)
        ended("third", days_ago=1, parent=second)
        prune("--older-than=7", "--batch-size=1")
        assert run_ids() == {"first", "second", "third"}
        assert store.lineage_message_ids(second.key) == {"message of first", "message of second"}
        prune("--older-than=0.5")
        assert everything() == [[]] * len(ALL)

    def test_what_a_live_run_goes_on_from_stays_in_another_thread_too(self):
        parent = ended("parent", days_ago=100, thread="one")
        going("child", parent=parent, thread="two")
        prune("--older-than=0", "--include-waiting", "--include-unresolved")
        assert run_ids() == {"parent", "child"}

    def test_an_interrupt_that_was_answered_keeps_nothing(self):
        asked = ended("asked", status=RunStatus.INTERRUPTED)
        ended("fork", parent=asked)
        prune("--older-than=7")
        assert run_ids() == {"asked"}
        Interrupt.objects.update(decision=Decision.APPROVED)
        prune("--older-than=7")
        assert run_ids() == set()

    def test_C24_what_visitors_left_behind_has_an_age_of_its_own(self):
        for owner in (ADA, VISITOR):
            for thread in ("", "thread"):
                ended(f"{owner.key[:4]} {thread}", owner=owner, thread=thread)
        out = prune("--anonymous-older-than=7", "--older-than=30")
        assert "1 thread and 1 run outside of threads of anonymous visitors pruned" in out
        assert run_ids() == {"user ", "user thread"}

    def test_C43_an_idempotency_key_lives_as_long_as_its_run(self):
        for run_id, days in (("old", 10), ("new", 1)):
            ended(run_id, days_ago=days, idempotency=Idempotency(key=run_id, content=""))
        prune("--older-than=7")
        found = [store.by_idempotency_key(key, owner=ADA, scope="", server="server") for key in ("old", "new")]
        assert [run and run.run_id for run in found] == [None, "new"]

    def test_C43_the_snapshots_of_a_kept_run_stay_and_its_late_retries_add_nothing(self):
        ended("kept", days_ago=1)
        steps = step_store(ADA)
        async_to_sync(steps.append_event)(event("kept", key="k"))
        prune("--older-than=7")
        async_to_sync(steps.append_event)(event("kept", key="k"))
        assert len(async_to_sync(steps.list_events)(run_id="kept")) == 2
        assert async_to_sync(steps.latest_snapshot)(run_id="kept").messages == [prompt("hi"), prompt("kept")]


class TestHow:
    def test_C43_a_dry_run_tells_how_much_would_go_and_changes_nothing(self):
        first = ended("first")
        ended("second", parent=first)
        ended("third", thread="thread")
        before = everything()
        out = prune("--older-than=7", "--dry-run", "--batch-size=1")
        assert "1 thread and 2 runs outside of threads would be pruned" in out
        assert everything() == before

    def test_C43_any_number_goes_in_small_transactions_and_again_is_nothing(self, monkeypatch):
        sizes: list[int] = []
        delete_runs = pruning.delete_runs

        def counted(runs: dict[int, str], *, using: str) -> None:
            sizes.append(len(runs))
            delete_runs(runs, using=using)

        monkeypatch.setattr(pruning, "delete_runs", counted)
        monkeypatch.setattr(pruning, "ROWS_PER_READ", 2)
        for number in range(10):
            ended(str(number), days_ago=1 + number % 2 * 10)
            ended(f"in {number}", thread=str(number), days_ago=1 + number % 2 * 10)
        assert "5 threads and 5 runs" in prune("--older-than=5", "--batch-size=3")
        assert sizes == [3, 2]
        assert "0 threads and 0 runs" in prune("--older-than=5")
        assert Run.objects.count() == 10

    def test_one_thread_that_cannot_be_deleted_holds_up_no_other(self, monkeypatch, caplog):
        for number in range(3):
            ended(str(number), thread=str(number))
        torn = Thread.objects.get(thread_id="1").pk
        delete_thread = pruning.delete_thread

        def refusing(threads: Any, **arguments: Any) -> list[int]:
            if threads.filter(pk=torn).exists():
                raise DatabaseError("torn page")
            return delete_thread(threads, **arguments)

        monkeypatch.setattr(pruning, "delete_thread", refusing)
        with pytest.raises(CommandError, match="1 batch could not be pruned"):
            prune("--older-than=1")
        assert run_ids() == {"1"}
        assert "torn page" in caplog.text

    def test_a_thread_that_somebody_goes_on_with_meanwhile_stays(self, monkeypatch):
        ended("old", thread="thread")
        delete_thread = pruning.delete_thread

        def joined(threads: Any, **arguments: Any) -> list[int]:
            going("new", thread="thread")
            return delete_thread(threads, **arguments)

        monkeypatch.setattr(pruning, "delete_thread", joined)
        assert "0 threads" in prune("--older-than=1")
        assert run_ids() == {"old", "new"}


@pytest.mark.parametrize(
    "arguments", [["--older-than", value] for value in ("-1", "nan", "inf", "1e9", "soon", "")]
    + [["--anonymous-older-than=x"], ["--batch-size=0"], ["--batch-size=1.5"]],
)  # fmt: skip
def test_an_argument_that_makes_no_sense_is_refused_before_anything_happens(arguments):
    ended()
    with pytest.raises(CommandError, match="is not a"):
        prune("--older-than=0", *arguments)
    assert run_ids() == {"run"}


def test_without_an_age_nothing_goes():
    ended()
    with pytest.raises(CommandError, match="how old is too old"):
        prune()
    assert run_ids() == {"run"}
