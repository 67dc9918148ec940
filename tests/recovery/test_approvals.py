"""Answers to interrupts whose process dies."""

import json

import pytest

from django_ag_ui.api.answers import AnswerPost
from django_ag_ui.server import get_server
from django_pydantic_agent.contrib.store.models import Interrupt, Run, ToolEffect
from django_pydantic_agent.log.accept import accept_answer, parse_input
from django_pydantic_agent.runs.opening import new_run
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from tests.recovery.test_kill import spell

SIGN = {"do": "call", "tool": "sign", "id": "call-1"}


def answer(processes, interrupt, *, approved=True):
    body = processes.body([])
    payload = {"approved": approved}
    return {**body, "messages": [], "resume": [{"interruptId": interrupt, "status": "resolved", "payload": payload}]}


def asking(processes, *, mount="talk", **args):
    processes.post_here(processes.body([[{**SIGN, "args": args}], [spell("done")]]), mount=mount)
    return Interrupt.objects.get().interrupt_id


@pytest.mark.parametrize("mount", ["talk", "plain", "resume", "resume-plain"])
def test_C17_an_approved_tool_whose_process_died_is_not_run_again(processes, gates, mount):
    gate = f"signing {mount}"
    interrupt = asking(processes, mount=mount, text="n", gate=gate)
    body = answer(processes, interrupt)
    job = processes.post(body, mount=mount)
    gates.wait_reached(gate)
    job.kill()
    processes.recover()
    events = processes.check(body, job, known_calls=["call-1"])
    results = [event["toolCallId"] for event in events if "content" in event]
    asks = mount.startswith("resume")
    status = RunStatus.INTERRUPTED if asks else RunStatus.ORPHANED
    assert (processes.run(body).status, results) == (status, [] if asks else ["call-1"])
    assert [(effect.tool_name, effect.reason) for effect in ToolEffect.objects.all()] == [("sign", "crash")]
    again = processes.post_here(answer(processes, interrupt), mount=mount)
    assert (again[-1]["type"], again[-1].get("code")) == (events[-1]["type"], events[-1].get("code"))
    following = processes.post_here(processes.body([[{"do": "recite"}]]), mount=mount)
    assert following[-1]["outcome"] == {"type": "success"}
    assert processes.user.notes.count() == 1


def test_an_answer_that_no_process_has_begun_is_acted_on_by_another(processes):
    interrupt = asking(processes, mount="plain", text="n")
    body = answer(processes, interrupt)
    accept_and_die(processes, body)
    assert (processes.run(body).status, processes.user.notes.count()) == (RunStatus.QUEUED, 0)
    assert processes.recover().begun == 1
    events = processes.check(body, known_calls=["call-1"])
    assert "signed n" in [event.get("content") for event in events]
    assert (processes.run(body).status, processes.user.notes.count()) == (RunStatus.FINISHED, 1)
    assert Run.objects.get(run_id=body["runId"]).parent.status == "interrupted"


def accept_and_die(processes, body):
    """Write the run of an answer as a process does that dies before it begins it."""
    server, store = get_server("plain"), durable_store()
    raw = json.dumps(body).encode()
    posted = parse_input(raw)
    config = server.agent_config
    post = AnswerPost(posted=posted, owner=processes.owner, scope="", store=store, config=config)
    answered = post.read()
    plan = RunPlan(
        config=config,
        request=RunRequest(
            user=processes.user, owner=processes.owner, run_id=posted.run_id, thread_id=posted.thread_id, body=raw
        ),
        run_input=accept_answer(posted, calls=()),
        store=store,
        digest="d",
        source=answered.run,
        answers=answered.answers,
    )
    store.create(new_run(plan), on_commit=lambda *_: None)
