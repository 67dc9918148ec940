"""`kill -9` of the process that executes a run, at any moment."""

import json
import os
import random
from collections import Counter

import pytest

from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus
from django_pydantic_agent.runs.states import RunStatus
from example_project.notebook.models import Note
from tests.waiting import eventually

KILLS = int(os.environ.get("KILLS", "8"))
"""How often a process is killed for each policy; the proof is 50."""


def write(text):
    return {"do": "call", "tool": "write", "id": f"write-{text}", "args": {"text": text}}


def hold(gate, call_id="hold"):
    return {"do": "call", "tool": "hold", "id": call_id, "args": {"gate": gate}}


def spell(text):
    return {"do": "spell", "text": text}


LONG = [
    [{"do": "think", "text": "hmm"}, spell("let me write that down"), write("one"), write("two")],
    [spell("one more"), write("three")],
    [spell("that is all")],
]


def effects(processes, body):
    rows = ToolEffect.objects.filter(run=processes.run(body).key).order_by("tool_call_id")
    return {call: (status, reason) for call, status, reason in rows.values_list("tool_call_id", "status", "reason")}


def check_next_message(processes, before, *, mount="talk", thread_id="t"):
    """Check that the thread takes a message, whose run knows what came before."""
    events = processes.post_here(processes.body([[{"do": "recite"}]], thread_id=thread_id), mount=mount)
    assert events[-1]["type"] == "RUN_FINISHED"
    recited = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert before in recited


# What the streams of LONG show of its tools, by seq.
TOOL_FRAMES = [*range(31, 39), *range(49, 53)]


def moments():
    """Return after which frames to kill: those of the tools first, then any."""
    chance = random.Random(4)
    tools = chance.sample(TOOL_FRAMES, len(TOOL_FRAMES))
    return [*tools, *(chance.randrange(75) for _ in range(KILLS))][:KILLS]


@pytest.mark.serial
@pytest.mark.parametrize("mount", ["talk", "resume"])
def test_killed_at_random_moments_a_run_has_one_end_and_a_whole_log(processes, mount):
    statuses = []
    for number, moment in enumerate(moments()):
        body = processes.body(LONG, thread_id=f"t{number}")
        job = processes.post(body, mount=mount)
        job.wait_shown(moment)
        job.kill()
        processes.recover()
        events = processes.check(body, job)
        statuses.append(processes.run(body).status)
        cut = RunStatus.INTERRUPTED if mount == "resume" else RunStatus.ORPHANED
        assert statuses[-1] in (cut, RunStatus.FINISHED)
        accounts = effects(processes, body)
        for call, (status, reason) in accounts.items():
            assert (status, reason) in ((EffectStatus.COMPLETED, ""), (EffectStatus.STARTED, "crash"))
            if status == EffectStatus.STARTED:
                assert call.startswith("write")
                assert "write" in json.dumps(events[-1])
        check_notes(accounts)
        if statuses[-1] is RunStatus.INTERRUPTED:
            assert (EffectStatus.STARTED, "crash") in accounts.values()
        check_next_message(processes, "write that down", mount=mount, thread_id=f"t{number}")
        Note.objects.all().delete()
    if mount == "talk":
        assert statuses.count(RunStatus.ORPHANED) > KILLS // 2


def check_notes(accounts):
    """Check that no tool has acted twice, and that each has acted whose effect says so."""
    written = Counter(Note.objects.values_list("text", flat=True))
    assert set(written.values()) <= {1}
    for call, (status, _) in accounts.items():
        if status == EffectStatus.COMPLETED:
            assert written[call.removeprefix("write-")] == 1


POINTS = ["before the call", "in the tool", "after it has acted", "after the tool", "behind its result"]


@pytest.mark.parametrize("mount", ["talk", "plain", "resume", "resume-plain"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_tool_boundary_a_run_accounts_for_the_tool(processes, gates, mount, point):
    gate = {name: f"{name} on {mount} for {point}" for name in POINTS}
    held = {"text": "one", "before": gate["in the tool"], "after": gate["after it has acted"]}
    call = {"do": "call", "tool": "write_held", "id": "write-one", "args": held}
    script = [
        [spell("first"), {"do": "gate", "name": gate["before the call"]}, call],
        [{"do": "gate", "name": gate["after the tool"]}, spell("x"), {"do": "gate", "name": gate["behind its result"]}],
    ]
    for name in POINTS:
        if name != point:
            gates.open(gate[name])
    body = processes.body(script)
    job = processes.post(body, mount=mount)
    gates.wait_reached(gate[point])
    # Killed before it has committed anything, a run would be begun again.
    eventually(lambda: processes.run(body).status is RunStatus.RUNNING)
    job.kill()
    gates.open(gate[point])
    processes.recover()
    processes.check(body, job)
    accounts = effects(processes, body)
    check_notes(accounts)
    unknown = accounts.get("write-one", ("", ""))[0] == EffectStatus.STARTED
    resumes = mount.startswith("resume") and not unknown
    asks = mount.startswith("resume") and unknown
    run = processes.run(body)
    assert run.status is (RunStatus.INTERRUPTED if asks else RunStatus.FINISHED if resumes else RunStatus.ORPHANED)
    if point == "before the call":
        assert (Note.objects.count(), accounts) == (
            (1, {"write-one": (EffectStatus.COMPLETED, "")}) if resumes else (0, {})
        )
    elif point in ("in the tool", "after it has acted"):
        assert accounts == {"write-one": (EffectStatus.STARTED, "crash")}
        assert "write_held" in (run.interrupts[0] if asks else run.error)["message"]
    else:
        assert Note.objects.count() == 1


def test_killed_in_a_tool_the_run_names_the_tool_whose_effect_is_unknown(processes, gates):
    gate = "in the tool"
    body = processes.body([[spell("first"), write("one"), hold(gate)], ["never said"]])
    job = processes.post(body)
    gates.wait_reached(gate)
    job.kill()
    processes.recover()
    events = processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.error["code"]) == (RunStatus.ORPHANED, "orphaned")
    timing = Run.objects.get(pk=run.key).timing
    assert timing["accepted"] == run.started_at.isoformat()
    assert timing["end"] > 0
    assert timing["commits"] is None
    assert events[-1]["code"] == "orphaned"
    assert "hold" in events[-1]["message"]
    assert effects(processes, body)["hold"] == (EffectStatus.STARTED, "crash")
    assert run.unresolved_effects == sum(
        status == EffectStatus.STARTED for status, _ in effects(processes, body).values()
    )
    assert [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"] in (
        ["hold", "write-one"],
        ["write-one", "hold"],
    )
    check_next_message(processes, "first")


def test_killed_between_a_side_effect_and_its_record_a_run_is_settled_and_resumed_without_acting_again(
    processes, gates
):
    act = {"do": "call", "tool": "write_held", "id": "act", "args": {"text": "two", "before": "a", "after": "b"}}
    gates.open("a")
    body = processes.body([[write("one")], [act], ["never said"]])
    job = processes.post(body)
    gates.wait_reached("b")
    job.kill()
    processes.recover()
    processes.check(body, job)
    assert effects(processes, body) == {
        "act": (EffectStatus.STARTED, "crash"),
        "write-one": (EffectStatus.COMPLETED, ""),
    }
    url = f"/talk/runs/{body['runId']}/effects/"
    row = next(row for row in processes.client.get(url).json()["effects"] if row["unresolved"])
    assert (row["tool_name"], row["reason"], row["arguments"]) == (
        "write_held",
        "crash",
        '{"text":"two","before":"a","after":"b"}',
    )
    settled = processes.client.post(row["links"]["resolve"], {"verdict": "happened"}, content_type="application/json")
    assert settled.json()["unresolved"] is False
    assert processes.run(body).unresolved_effects == 0
    events = processes.post_here(processes.body([[{"do": "recite"}]]), route=f"resume/{body['runId']}/")
    assert events[-1]["type"] == "RUN_FINISHED"
    recited = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert "wrote one" in recited
    # The model knows of the call, so it does not ask for it again.
    assert "The tool has run, but its result was lost." in recited
    check_next_message(processes, "wrote one")
    assert sorted(Note.objects.values_list("text", flat=True)) == ["one", "two"]


def test_killed_before_a_tool_the_run_has_no_effect_to_account_for(processes, gates):
    gate = "before the tool"
    body = processes.body([[spell("first"), {"do": "gate", "name": gate}, write("one")]])
    job = processes.post(body)
    gates.wait_reached(gate)
    job.wait_shown(3)
    job.kill()
    processes.recover()
    events = processes.check(body, job)
    assert effects(processes, body) == {}
    assert events[-1]["message"] == "The process that ran the agent is gone."
    assert not Note.objects.exists()
    check_next_message(processes, "first")


def test_killed_after_a_tool_the_run_keeps_its_result(processes, gates):
    gate = "after the tool"
    body = processes.body([[spell("first"), write("one")], [{"do": "gate", "name": gate}, "never said"]])
    job = processes.post(body)
    gates.wait_reached(gate)
    eventually(lambda: b"wrote one" in job.text)
    job.kill()
    processes.recover()
    events = processes.check(body, job)
    assert effects(processes, body) == {"write-one": (EffectStatus.COMPLETED, "")}
    results = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert results == ["wrote one"]
    check_next_message(processes, "wrote one")
    assert Note.objects.count() == 1


def test_without_a_thread_a_killed_run_ends_too(processes, gates):
    gate = "no thread"
    body = processes.body([[spell("first"), {"do": "gate", "name": gate}]])
    job = processes.post(body, mount="plain")
    gates.wait_reached(gate)
    job.wait_shown(3)
    job.kill()
    processes.recover()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.ORPHANED


def test_the_thread_has_what_the_log_of_a_killed_run_has(processes, gates):
    gate = "state"
    remember = [{"do": "call", "tool": "remember", "id": f"call-{n}", "args": {"number": n}} for n in (1, 2, 3)]
    script = [[remember[0]], [remember[1]], [remember[2]], [spell("half"), {"do": "gate", "name": gate}]]
    body = processes.body(script, state={"numbers": [0]})
    job = processes.post(body)
    gates.wait_reached(gate)
    eventually(lambda: b'"delta":"f"' in job.text)
    job.kill()
    processes.recover()
    processes.check(body, job)
    thread = processes.thread()
    assert thread["state"] == {"numbers": [0, 1, 2, 3]}
    assert [message["role"] for message in thread["messages"]][:2] == ["user", "assistant"]
    assert thread["messages"][-1]["content"] == "half"
    assert thread["active_run"] is None
    assert thread["revision"] == 2
