"""Runs that wait behind another one in their thread when their process dies."""

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError
from django.test import override_settings

from django_pydantic_agent.contrib.store.erasure import set_aside
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from example_project.notebook.models import Note
from tests.recovery.test_kill import spell, write
from tests.recovery.test_takeover import waiting
from tests.waiting import eventually


def queued(processes, gates, gate, script=None, *, ahead=None, mount="talk"):
    """Kill a process with a run that waits at a gate and, from another process, kill one with a run queued behind."""
    first = processes.body(ahead or waiting(gate))
    running = processes.post(first, mount=mount)
    gates.wait_reached(gate)
    second = processes.body(script or [[{"do": "recite"}]])
    second["messages"] = [*first["messages"], *second["messages"]]
    waits = processes.post(second, mount=mount)
    running.kill()
    waits.kill()
    assert processes.run(second).status is RunStatus.QUEUED
    return first, second, (running, waits)


def test_a_queued_run_whose_process_died_is_executed_by_another_after_the_run_ahead_has_ended(processes, gates):
    first, second, jobs = queued(processes, gates, "queued")
    recovery = processes.recover()
    assert (recovery.ended, recovery.begun) == (1, 1)
    processes.check(first, jobs[0])
    events = processes.check(second, jobs[1])
    assert [processes.run(body).status for body in (first, second)] == [RunStatus.ORPHANED, RunStatus.FINISHED]
    recited = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert "first" in recited
    thread = processes.thread()
    assert [message["role"] for message in thread["messages"]] == ["user", "assistant", "tool", "user", "assistant"]
    assert (thread["revision"], thread["active_run"]) == (4, None)


def test_a_queued_run_that_was_to_stop_is_never_executed(processes, gates):
    _, second, _ = queued(processes, gates, "queued and cancelled", [[spell("never said")]])
    get_engine().request_cancel(processes.run(second).key, store=durable_store())
    assert processes.recover().begun == 0
    events = processes.check(second)
    assert [event["type"] for event in events] == ["RUN_STARTED", "RUN_FINISHED"]
    assert processes.run(second).status is RunStatus.CANCELLED


def test_a_queued_run_of_a_mount_that_is_gone_ends_and_says_so(processes, gates):
    _, second, _ = queued(processes, gates, "no mount")
    with override_settings(ROOT_URLCONF="tests.urls"):
        processes.recover()
    processes.check(second)
    run = processes.run(second)
    assert (run.status, run.error["code"]) == (RunStatus.FAILED, "unknown_server")


def test_a_queued_run_of_a_deactivated_user_ends_and_says_so(processes, gates):
    _, second, _ = queued(processes, gates, "deactivated")
    processes.user.is_active = False
    processes.user.save()
    processes.recover()
    processes.check(second)
    run = processes.run(second)
    assert (run.status, run.error["code"]) == (RunStatus.FAILED, "unknown_owner")


def test_a_queued_run_that_cannot_be_read_because_the_database_is_away_is_begun_later(processes, gates, monkeypatch):
    _, second, _ = queued(processes, gates, "away")
    outages = [OperationalError("the database is away")]
    users = get_user_model()._base_manager
    read = users.get_queryset

    def read_when_it_is_back():
        if outages:
            raise outages.pop()
        return read()

    monkeypatch.setattr(users, "get_queryset", read_when_it_is_back)
    processes.recover()
    assert processes.run(second).status is RunStatus.FINISHED
    assert not outages


def test_C43_a_queued_run_whose_owner_is_being_erased_is_never_executed(processes, gates):
    gates.open("executed for nobody")
    queued(processes, gates, "erased", [[{"do": "gate", "name": "executed for nobody"}]])
    set_aside(processes.owner)
    processes.recover()
    assert sorted(Run.objects.values_list("status", flat=True)) == ["failed", "orphaned"]
    assert gates.count("executed for nobody") == 0


def test_C43_a_run_whose_owner_is_being_erased_is_not_resumed(processes, gates):
    body = processes.body([[{"do": "gate", "name": "resumed for nobody"}, write("never")]])
    job = processes.post(body, mount="resume")
    gates.wait_reached("resumed for nobody")
    job.kill()
    gates.open("resumed for nobody")
    set_aside(processes.owner)
    processes.recover()
    assert Run.objects.get().status == RunStatus.FAILED
    assert (gates.count("resumed for nobody"), Note.objects.exists()) == (1, False)


@pytest.mark.parametrize(("mount", "times"), [("deadly", 2), ("deadly-resume", 4)])
def test_a_run_whose_preparation_kills_each_process_is_begun_so_often_and_then_ended(processes, gates, mount, times):
    body = processes.body([["never said"]]) | {"runId": f"kills on {mount}"}
    processes.post(body, mount=mount).wait_gone()
    for _ in range(times):
        assert processes.run(body).status.is_live
        processes.start("recover").wait_gone()
    processes.check(body)
    assert (processes.run(body).status, gates.count(f"prepared {body['runId']}")) == (RunStatus.ORPHANED, times)


def test_only_the_run_that_has_opened_a_thread_gives_it_a_title_whoever_executes_it(processes, gates):
    queued(processes, gates, "titled", [["answer"]], ahead=[["once", {"do": "gate", "name": "titled"}]], mount="titled")
    gates.open("titled")
    assert processes.recover().resumed == 1
    assert processes.thread("titled")["title"] == "titled by r1"
    third = processes.body([["once", {"do": "gate", "name": "third"}], ["more"]])
    job = processes.post(third, mount="titled")
    gates.wait_reached("third")
    eventually(lambda: processes.run(third).status is RunStatus.RUNNING)
    job.kill()
    gates.open("third")
    assert processes.recover().resumed == 1
    assert processes.run(third).status is RunStatus.FINISHED
    assert processes.thread("titled")["title"] == "titled by r1"


def test_a_request_is_kept_with_its_run(processes, gates):
    _, second, _ = queued(processes, gates, "kept")
    kept = Run.objects.values_list("request", flat=True).get(run_id=second["runId"])
    assert (kept["method"], kept["path"]) == ("POST", "/talk/")
    assert set(kept["thread"]) == {"revision", "goes_on", "regenerates", "catches_up", "knows_newest"}
    processes.recover()
