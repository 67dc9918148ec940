"""Who takes a run over, and what becomes of the process that it was taken from."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from django.db import OperationalError, transaction

from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.recovery import Recovery
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from django_pydantic_agent.stores.leases import RELEASED
from example_project.notebook.models import Note
from tests.recovery.test_kill import hold, spell, write
from tests.waiting import eventually


def stop(job):
    """Stop a process outside of its transactions: inside one nobody else could write to its run."""

    def stopped():
        job.kill(signal.SIGSTOP)
        try:
            with transaction.atomic():
                list(Run.objects.select_for_update(nowait=True))
        except OperationalError:
            job.kill(signal.SIGCONT)
            return False
        return True

    eventually(stopped)


def waiting(gate):
    return [[spell("first"), hold(gate)], ["second"]]


def test_a_process_that_was_stopped_writes_nothing_after_the_takeover(processes, gates):
    gate = "stopped"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    eventually(lambda: processes.run(body).status is RunStatus.RUNNING)
    stop(job)
    assert processes.recover().ended == 1
    before = processes.check(body, job)
    gates.open(gate)
    job.kill(signal.SIGCONT)
    job.wait_done()
    assert processes.check(body, job) == before
    assert processes.run(body).status is RunStatus.ORPHANED
    # Whoever followed the run in that process has seen it end as it did.
    assert max(job.shown()) == len(before)


@pytest.mark.parametrize("mount", ["resume", "resume-plain"])
def test_a_process_that_was_stopped_writes_nothing_besides_the_next_attempt(processes, gates, mount):
    gate = f"stopped on {mount}"
    body = processes.body([[spell("first"), {"do": "gate", "name": gate}, write("one")], [spell("second")]])
    job = processes.post(body, mount=mount)
    gates.wait_reached(gate)
    eventually(lambda: b'"delta":"t"' in job.text)
    stop(job)
    gates.open(gate)
    assert processes.recover().resumed == 1
    before = processes.check(body, job)
    job.kill(signal.SIGCONT)
    job.wait_done()
    assert processes.check(body, job) == before
    assert processes.run(body).status is RunStatus.FINISHED
    assert Note.objects.count() == 1
    assert max(job.shown()) == len(before)


@pytest.mark.parametrize(("mount", "status"), [("talk", RunStatus.ORPHANED), ("resume", RunStatus.FINISHED)])
def test_a_run_that_a_draining_process_lets_go_of_is_taken_over_at_once(processes, gates, mount, status):
    gate, drain = f"drained on {mount}", f"drain {mount}"
    body = processes.body([[spell("first"), {"do": "gate", "name": gate}, write("one")], [spell("second")]])
    job = processes.post(body, mount=mount, drain=drain)
    gates.wait_reached(gate)
    queued = processes.body([[{"do": "recite"}]])
    queued["messages"] = [*body["messages"], *queued["messages"]]
    behind = processes.post(queued, mount=mount)
    gates.open(drain)
    # It has looked for orphans itself, and has left this one to others.
    gates.wait_reached(f"{drain} done")
    assert Run.objects.get(run_id=body["runId"]).beat == RELEASED
    gates.open(gate)
    recovery = Recovery(get_engine(), durable_store(), clock=lambda: 0.0)
    recovery.look()
    get_engine().wait()
    processes.check(body, job)
    assert processes.run(body).status is status
    assert Note.objects.count() == (status is RunStatus.FINISHED)
    behind.wait_done()
    assert processes.run(queued).status is RunStatus.FINISHED
    gates.open(f"{drain} done")
    job.wait_done()
    assert max(job.shown()) == processes.run(body).last_seq


def test_a_process_that_lost_a_run_in_the_middle_of_a_tool_stops_it(processes, gates):
    gate = "lost"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    processes.recover()
    # The gate stays closed: the process learns of its loss by a beat, and cancels the tool.
    job.wait_done()
    processes.check(body, job)


def test_a_run_that_takes_longer_than_a_lease_is_left_alone(processes, gates):
    gate = "long"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    get_engine().watch_leases()
    beat = Run.objects.values_list("beat", flat=True)
    first = beat.get(run_id=body["runId"])
    # More beats than two leases have room for.
    eventually(lambda: beat.get(run_id=body["runId"]) >= first + 20)
    gates.open(gate)
    job.wait_done()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.FINISHED


def test_every_process_looks_by_itself_and_ends_an_orphan_within_two_leases(processes, gates, settings):
    gate = "by itself"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    # A request to any mount is enough; this one is to the other.
    processes.post_here(processes.body([["hello"]], thread_id="other"), mount="plain")
    job.kill()
    lease = settings.DJANGO_PYDANTIC_AGENT["LEASE_SECONDS"]
    eventually(lambda: not processes.run(body).status.is_live, seconds=2 * lease)
    processes.check(body, job)


def test_of_two_processes_that_sweep_at_once_one_ends_each_run(processes, gates):
    gate = "orphans"
    bodies = [processes.body(waiting(gate), thread_id=f"t{number}") for number in range(8)]
    jobs = [processes.post(body) for body in bodies]
    gates.wait_reached(gate, len(bodies))
    for job in jobs:
        job.kill()
    sweepers = [processes.start("sweep", gate="sweep") for _ in range(2)]
    gates.wait_reached("sweep", 2)
    gates.open("sweep")
    for sweeper in sweepers:
        sweeper.wait_done()
    counts = [json.loads(sweeper.text.split(b"\n")[0]) for sweeper in sweepers]
    assert [sum(column) for column in zip(*counts, strict=True)] == [len(bodies), 0]
    for body, job in zip(bodies, jobs, strict=True):
        processes.check(body, job)
    assert set(Run.objects.values_list("epoch", flat=True)) == {2}


def test_the_command_ends_orphans_where_nobody_serves(processes, gates, live_database):
    gate = "command"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    job.kill()
    assert recover_runs(live_database) == "1 ended, 0 begun, 0 resumed.\n"
    processes.check(body, job)


def test_the_command_does_not_wait_for_an_answer_and_lets_go_of_what_is_queued_behind_the_question(
    processes, gates, live_database
):
    gate = "asked later"
    signs = {"do": "call", "tool": "sign", "id": "call-1", "args": {"text": "n"}}
    first = processes.body([[{"do": "gate", "name": gate}, signs], [spell("signed")]])
    asking = processes.post(first)
    gates.wait_reached(gate)
    queued = processes.body([[{"do": "recite"}]])
    queued["messages"] = [*first["messages"], *queued["messages"]]
    behind = processes.post(queued)
    gates.open(gate)
    asking.wait_done()
    behind.kill()
    assert recover_runs(live_database) == "0 ended, 1 begun, 0 resumed.\n"
    run = Run.objects.get(run_id=queued["runId"])
    assert (run.status, run.beat) == (RunStatus.QUEUED, RELEASED)


def recover_runs(database):
    env = os.environ | database.env | {"DJANGO_SETTINGS_MODULE": "tests.recovery.settings"}
    command = [sys.executable, "-m", "django", "recover_runs"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    return result.stdout


def test_a_look_that_fails_starts_over(processes, gates, monkeypatch):
    gate = "failed look"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    job.kill()
    now = [0.0]
    recovery = Recovery(get_engine(), durable_store(), clock=lambda: now[0])
    recovery.look()
    with monkeypatch.context() as broken:
        broken.setattr("django_pydantic_agent.contrib.store.leases.DatabaseRunLeases.live", _fail)
        now[0] = 9.0
        recovery.look()
    now[0] = 10.0
    recovery.look()
    assert processes.run(body).status is RunStatus.RUNNING
    now[0] = 20.0
    recovery.look()
    assert processes.run(body).status is RunStatus.ORPHANED
    processes.check(body, job)


def _fail(self):
    raise OSError("away")


@pytest.mark.parametrize("mount", ["talk", "plain"])
def test_a_run_is_stopped_from_another_process_within_a_second(processes, gates, mount):
    gate = f"cancel on {mount}"
    body = processes.body(waiting(gate))
    job = processes.post(body, mount=mount)
    gates.wait_reached(gate)
    store = durable_store()
    begun = time.monotonic()
    assert get_engine().request_cancel(processes.run(body).key, store=store)
    eventually(lambda: not processes.run(body).status.is_live, seconds=5)
    assert time.monotonic() - begun < 1
    job.wait_done()
    events = processes.check(body, job)
    assert processes.run(body).status is RunStatus.CANCELLED
    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert not get_engine().request_cancel(processes.run(body).key, store=store)


def test_a_run_that_was_to_stop_when_its_process_died_ends_as_cancelled(processes, gates):
    gate = "cancelled orphan"
    body = processes.body(waiting(gate))
    job = processes.post(body)
    gates.wait_reached(gate)
    job.kill()
    assert get_engine().request_cancel(processes.run(body).key, store=durable_store())
    processes.recover()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.CANCELLED


@pytest.mark.parametrize(
    ("mount", "status", "code"),
    [("talk", RunStatus.ORPHANED, "orphaned"), ("resume", RunStatus.FAILED, "unknown_thread")],
)
def test_a_run_whose_thread_is_gone_is_ended_outside_of_it(processes, gates, mount, status, code):
    gate = f"without a thread on {mount}"
    body = processes.body([[spell("half"), {"do": "gate", "name": gate}]])
    job = processes.post(body, mount=mount)
    gates.wait_reached(gate)
    eventually(lambda: b'"delta":"f"' in job.text)
    job.kill()
    Run.objects.update(in_thread=None)
    processes.recover()
    processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.error["code"]) == (status, code)
