"""Logs that get shorter and runs that go: by a process that dies meanwhile, and in threads that go on."""

import pytest
from django.core.management import call_command

from django_pydantic_agent.contrib.store.models import HistoryMessage, Run, RunFrames, Snapshot
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.runs.attach import preamble
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.stores import durable_store
from tests.recovery.test_kill import check_next_message, hold, spell
from tests.store.test_pruning import ended
from tests.store.test_run_log import WHOLE, ended_run
from tests.store.test_run_store import ADA, read
from tests.waiting import eventually


def prune():
    call_command("prune_logs", "--older-than=0")


def test_killed_while_it_prunes_a_process_leaves_a_whole_suffix_and_the_next_one_drops_the_rest(processes):
    store = DatabaseRunStore()
    # As many stretches at rest, so that there is a time in which to kill.
    run = ended_run(store, [b'{"type":"CUSTOM","value":"%s"}' % (b"x" * 260_000)] * 200, per_commit=1, merged=True)
    whole = read(store, run, max_bytes=WHOLE)
    # In transactions as small as can be.
    arguments = ["prune_logs", "--older-than=0", "--batch-size=1"]
    job = processes.start("command", arguments=arguments)
    eventually(lambda: store.first_seq(run.key) > 1)
    job.kill()
    first_seq = store.first_seq(run.key)
    assert 1 < first_seq < len(whole)
    assert read(store, run, after=first_seq - 1, max_bytes=WHOLE) == whole[first_seq - 1 :]
    with pytest.raises(LogPruned):
        read(store, run, after=first_seq - 2)
    processes.start("command", arguments=arguments).wait_done()
    assert store.first_seq(run.key) == len(whole) + 1
    assert not RunFrames.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "then"),
    [
        (["prune_runs", "--older-than=0", "--batch-size=1"], ["prune_runs", "--older-than=0"]),
        (["erase_owner", ADA.key, "--batch-size=1"], ["erase_owner", "--left-over"]),
    ],
    ids=["prune_runs", "erase_owner"],
)
def test_C43_killed_while_it_deletes_a_process_leaves_whole_runs_and_the_next_one_deletes_the_rest(
    processes, arguments, then
):
    before = None
    for number in range(120):
        before = ended(str(number), parent=before if number % 3 else None)
    job = processes.start("command", arguments=arguments)
    eventually(lambda: Run.objects.count() < 110)
    job.kill()
    left = set(Run.objects.values_list("pk", flat=True))
    assert 0 < len(left) < 110
    assert set(RunFrames.objects.values_list("run", flat=True)) == left
    assert set(Snapshot.objects.values_list("run", flat=True)) == left
    assert set(HistoryMessage.objects.values_list("writer", flat=True)) == left
    if "erase_owner" in arguments:
        assert not Run.objects.of_owner(ADA).exists()
    processes.start("command", arguments=then).wait_done()
    assert not Run.objects.exists()
    assert not HistoryMessage.objects.exists()


@pytest.mark.parametrize("boundary", [False, True], ids=["in its first answer", "behind a tool"])
def test_the_model_hears_of_what_a_killed_run_had_said_after_its_log_was_pruned(processes, gates, boundary):
    gate = f"pruned {boundary}"
    begin = [[{"do": "call", "tool": "write", "id": "write-one", "args": {"text": "one"}}]] if boundary else []
    body = processes.body([*begin, [spell("half an answer"), {"do": "gate", "name": gate}]])
    job = processes.post(body)
    gates.wait_reached(gate)
    eventually(lambda: b'"delta":"e"' in job.text)
    job.kill()
    processes.recover()
    prune()
    row = Run.objects.get(run_id=body["runId"])
    assert row.first_seq == row.boundary_seq + 1
    assert (row.first_seq > 2) is boundary
    check_next_message(processes, "half an answer")


@pytest.mark.parametrize("mount", ["talk", "plain"], ids=["in a thread", "outside of threads"])
def test_who_attaches_is_told_the_same_after_the_log_was_pruned(processes, mount):
    remember = {"do": "call", "tool": "remember", "id": "r", "args": {"number": 7}}
    first = processes.body([["earlier"]])
    processes.post_here(first, mount=mount)
    second = processes.body([[remember], [spell("the answer")]], state={"numbers": []})
    processes.post_here(second, mount=mount)
    get_engine().wait()
    conversation = find_mount(mount).conversation
    told = [preamble(processes.run(body), store=durable_store(), conversation=conversation) for body in (first, second)]
    assert b"the answer" in b"".join(told[1].frames)
    assert b'{"numbers":[7]}' in b"".join(told[1].frames)
    prune()
    assert not RunFrames.objects.exists()
    for body, before in zip((first, second), told, strict=True):
        assert preamble(processes.run(body), store=durable_store(), conversation=conversation) == before
    prune()
    assert preamble(processes.run(second), store=durable_store(), conversation=conversation) == told[1]


def test_a_run_with_an_effect_that_nobody_knows_keeps_its_log(processes, gates):
    gate = "pruned in the tool"
    body = processes.body([[hold(gate)]])
    job = processes.post(body)
    gates.wait_reached(gate)
    job.kill()
    processes.recover()
    prune()
    processes.check(body, job)
