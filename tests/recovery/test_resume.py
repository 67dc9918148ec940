"""`on_orphan="resume"`: another process takes a run up at its last boundary and goes on in the same log."""

import json
from itertools import chain

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from pydantic_ai_harness.step_persistence import SqliteStepStore

from django_ag_ui.api.sse import for_older_viewer
from django_pydantic_agent.contrib.store.models import Run, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EffectStatus
from django_pydantic_agent.log.closing import INTERRUPTED_RESULT
from django_pydantic_agent.policy.verdicts import VERDICTS
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from django_pydantic_agent.stores.effects import Verdict
from example_project.notebook.models import Note
from tests.core.folding import running_client
from tests.core.streams import Stream
from tests.recovery.agent import AT_THE_END, at_the_start
from tests.recovery.test_kill import check_next_message, effects, hold, spell, write
from tests.stock_client import CLIENT_VERSIONS
from tests.waiting import eventually

MOUNTS = ["resume", "resume-plain"]


@pytest.fixture
def stock_client():
    with running_client() as client:
        yield client


def gate(name):
    return {"do": "gate", "name": name}


def lookup(name, call_id="lookup"):
    return {"do": "call", "tool": "lookup", "id": call_id, "args": {"gate": name}}


def of_type(events, *types):
    return [event for event in events if event["type"] in types]


def text_of(message):
    return message.get("content", "")


def wait_completed():
    """Return once it is committed that every tool that was called has acted, and what it has returned."""
    eventually(lambda: set(ToolEffect.objects.values_list("status", flat=True)) == {EffectStatus.COMPLETED})
    eventually(lambda: logged_results() >= ToolEffect.objects.count())


def logged_results():
    frames = chain.from_iterable(
        durable_store().read_frames(run, after=0, max_bytes=1_000_000)
        for run in Run.objects.values_list("pk", flat=True)
    )
    return sum(frame.startswith(b'{"type":"TOOL_CALL_RESULT"') for frame in frames)


def messages_at_end(events):
    """Return role and text of the messages that the events add up to, as a client adds them up."""
    from django_pydantic_agent.log.projection import Projection

    projection = Projection(state=None)
    for event in events:
        projection.apply_json(event)
    return [(message["role"], message.get("content", "")) for message in projection.messages]


def interrupted(processes, gates, name, script, mount, **more):
    """Have a process reach a gate in a run that is known to have begun; return what was posted and the process."""
    body = processes.body(script, **more)
    job = processes.post(body, mount=mount)
    gates.wait_reached(name)
    eventually(lambda: processes.run(body).status is RunStatus.RUNNING)
    return body, job


@pytest.mark.parametrize("mount", MOUNTS)
def test_killed_in_the_middle_of_a_text_the_run_says_it_anew(processes, gates, mount):
    name = f"text on {mount}"
    body, job = interrupted(processes, gates, name, [[spell("half"), gate(name), "done"]], mount, state={"kept": 1})
    eventually(lambda: b'"delta":"f"' in job.text)
    job.kill()
    gates.open(name)
    assert processes.recover().resumed == 1
    events = processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.attempt) == (RunStatus.FINISHED, 2)
    assert gates.count(name) == 2
    kinds = [event["type"] for event in events]
    place = kinds.index("MESSAGES_SNAPSHOT")
    assert kinds[place - 1 : place + 2] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]
    assert [message["role"] for message in events[place]["messages"]] == ["user"]
    assert events[place + 1]["snapshot"] == {"kept": 1}
    assert messages_at_end(events)[1:] == [("assistant", "halfdone")]
    assert StepEvent.objects.filter(run=run.key, kind="run_started").count() == 2
    if mount == "resume":
        thread = processes.thread(mount)
        assert [text_of(message) for message in thread["messages"][1:]] == ["halfdone"]
        assert thread["state"] == {"kept": 1}
        check_next_message(processes, "halfdone", mount=mount)


@pytest.mark.parametrize("mount", MOUNTS)
def test_killed_after_a_tool_the_run_goes_on_with_its_result_and_never_calls_it_again(processes, gates, mount):
    name = f"after a tool on {mount}"
    body, job = interrupted(
        processes, gates, name, [[spell("first"), write("one")], [spell("second"), gate(name), {"do": "recite"}]], mount
    )
    eventually(lambda: b'"delta":"d"' in job.text)
    job.kill()
    gates.open(name)
    processes.recover()
    events = processes.check(body, job)
    assert processes.run(body).status is RunStatus.FINISHED
    assert Note.objects.count() == 1
    assert effects(processes, body) == {"write-one": (EffectStatus.COMPLETED, "")}
    assert [event["content"] for event in of_type(events, "TOOL_CALL_RESULT")] == ["wrote one"]
    (_, first), (_, result), (_, second) = messages_at_end(events)[1:]
    assert (first, result) == ("first", "wrote one")
    assert second.startswith("second")
    assert "wrote one" in second


@pytest.mark.parametrize("mount", MOUNTS)
def test_of_parallel_tools_those_that_have_answered_are_not_called_again_and_idempotent_ones_are(
    processes, gates, mount
):
    name = f"parallel on {mount}"
    script = [[spell("go"), write("one"), lookup(name)], [{"do": "recite"}]]
    body, job = interrupted(processes, gates, name, script, mount)
    eventually(lambda: b"wrote one" in job.text)
    job.kill()
    gates.open(name)
    processes.recover()
    events = processes.check(body, job)
    run = processes.run(body)
    assert run.status is RunStatus.FINISHED
    assert (Note.objects.count(), gates.count(name)) == (1, 2)
    assert effects(processes, body) == {
        "lookup": (EffectStatus.COMPLETED, ""),
        "write-one": (EffectStatus.COMPLETED, ""),
    }
    assert run.unresolved_effects == 0
    results = {event["toolCallId"]: event["content"] for event in of_type(events, "TOOL_CALL_RESULT")}
    assert results == {"write-one": "wrote one", "lookup": f"found {name}"}
    assert len(of_type(events, "TOOL_CALL_RESULT")) == 2
    assert {"wrote one", f"found {name}"} <= {text for _, text in messages_at_end(events)}
    recited = messages_at_end(events)[-1][1]
    assert "wrote one" in recited
    assert f"found {name}" in recited


@pytest.mark.parametrize("mount", [*MOUNTS, "resume-bare"])
def test_a_tool_of_which_nobody_knows_whether_it_has_acted_is_not_called_again(processes, gates, mount):
    name = f"unknown on {mount}"
    body, job = interrupted(processes, gates, name, [[spell("first"), hold(name)], ["never said"]], mount)
    job.kill()
    gates.open(name)
    processes.recover()
    events = processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.attempt) == (RunStatus.INTERRUPTED, 2)
    (question,) = events[-1]["outcome"]["interrupts"]
    assert question == run.interrupts[0]
    assert (question["reason"], question["toolCallId"]) == ("unknown_effect", "hold")
    assert question["message"].startswith("A crash cut hold(")
    assert gates.count(name) == 1
    assert of_type(events, "TOOL_CALL_RESULT") == []
    if mount != "resume-bare":
        assert effects(processes, body)["hold"] == (EffectStatus.STARTED, "crash")
    if mount == "resume":
        check_next_message(processes, "first", mount=mount)
        assert not processes.run(body).pending_interrupts


def answer_to(processes, run, **answer):
    """Return what answers all that a run has asked in one way."""
    resume = [{"interruptId": interrupt["id"], **answer} for interrupt in run.interrupts]
    return {**processes.body([]), "messages": [], "resume": resume}


def cut_in(processes, gates, name, script, mount):
    """Kill a process that holds a call whose effect nobody knows then, and have the run recovered."""
    body, job = interrupted(processes, gates, name, script, mount)
    eventually(lambda: logged_results() == len(script[0]) - 2)
    job.kill()
    gates.open(name)
    processes.recover()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.INTERRUPTED
    return body


@pytest.mark.parametrize(
    ("answer", "verdict", "told"),
    [
        ({"payload": {"approved": True}}, "happened", "The tool has run, but its result was lost."),
        ({"payload": {"approved": False, "reason": "no trace"}}, "did_not_happen", "the tool has done nothing"),
        ({"status": "cancelled"}, "", INTERRUPTED_RESULT),
    ],
)
@pytest.mark.parametrize("mount", [*MOUNTS, "resume-bare"])
def test_who_is_asked_what_became_of_a_call_settles_it_and_the_run_goes_on(
    processes, gates, mount, answer, verdict, told
):
    name = f"{verdict} asked on {mount}"
    script = [[spell("first"), write("one"), hold(name)], [{"do": "recite"}]]
    body = cut_in(processes, gates, name, script, mount)
    post = answer_to(processes, processes.run(body), **{"status": "resolved", **answer})
    events = processes.post_here(post, mount=mount)
    assert events[-1]["type"] == "RUN_FINISHED"
    assert [(event["toolCallId"], told in event["content"]) for event in of_type(events, "TOOL_CALL_RESULT")] == [
        ("hold", True)
    ]
    recited = "".join(event["delta"] for event in of_type(events, "TEXT_MESSAGE_CONTENT"))
    assert told in recited
    assert "wrote one" in recited
    assert (gates.count(name), Note.objects.count()) == (1, 1)
    assert processes.post_here(post, mount=mount)[-1] == events[-1]
    if mount != "resume-bare":
        effect = ToolEffect.objects.get(run=processes.run(body).key, tool_name="hold")
        assert (effect.status, effect.reason, effect.verdict) == (EffectStatus.STARTED, "crash", verdict)
        assert effect.verdict_by == (processes.owner.key if verdict else "")
        assert effect.verdict_note == ("no trace" if verdict == "did_not_happen" else "")
    if mount == "resume":
        assert processes.thread(mount)["messages"][-1]["content"] == recited
        check_next_message(processes, told, mount=mount)


@pytest.mark.parametrize("mount", MOUNTS)
def test_an_operator_may_have_settled_what_is_asked(processes, gates, mount):
    name = f"settled before on {mount}"
    body = cut_in(processes, gates, name, [[spell("first"), write("one"), hold(name)], [{"do": "recite"}]], mount)
    run = processes.run(body)
    call_command("settle_effect", effect_of(run, "hold"), "did_not_happen")
    post = answer_to(processes, run, status="resolved", payload={"approved": True})
    (result,) = of_type(processes.post_here(post, mount=mount), "TOOL_CALL_RESULT")
    assert "the tool has done nothing" in result["content"]
    assert ToolEffect.objects.get(run=run.key, tool_name="hold").verdict == "did_not_happen"


def killed_at_the_start(processes, gates, post):
    """Kill the process of an answer before its agent does anything; return the events of the answer once recovered."""
    gate = at_the_start(post["runId"])
    job = processes.post(post, mount="resume-answers")
    gates.wait_reached(gate)
    eventually(lambda: Run.objects.filter(run_id=post["runId"], boundary_seq__gt=0).exists())
    job.kill()
    gates.open(gate)
    assert processes.recover().resumed == 1
    assert processes.run(post).attempt == 2
    return processes.check(post, job, known_calls=["hold", "call-1"])


@pytest.mark.parametrize("beside", [[], [write("one")]])
def test_an_answer_that_crashes_before_it_is_heard_never_has_the_call_made_again(processes, gates, beside):
    name = f"answered twice beside {len(beside)}"
    body = cut_in(processes, gates, name, [[spell("first"), *beside, hold(name)], [{"do": "recite"}]], "resume-answers")
    post = answer_to(processes, processes.run(body), status="resolved", payload={"approved": False})
    events = killed_at_the_start(processes, gates, {**post, "runId": f"held-{len(beside)}"})
    (result,) = of_type(events, "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["content"]) == ("hold", VERDICTS[Verdict.DID_NOT_HAPPEN])
    assert events[-1]["outcome"] == {"type": "success"}
    assert VERDICTS[Verdict.DID_NOT_HAPPEN] in messages_at_end(events)[-1][1]
    assert (gates.count(name), Note.objects.count()) == (1, len(beside))


@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_that_crashes_before_its_call_is_kept(processes, gates, approved):
    sign = {"do": "call", "tool": "sign", "id": "call-1", "args": {"text": "signed"}}
    body = processes.body([[write("one"), sign], [{"do": "recite"}]])
    processes.post_here(body, mount="resume-answers")
    post = answer_to(processes, processes.run(body), status="resolved", payload={"approved": approved})
    events = killed_at_the_start(processes, gates, {**post, "runId": f"held-{approved}"})
    assert [event["toolCallId"] for event in of_type(events, "TOOL_CALL_RESULT")] == ["call-1"]
    assert events[-1]["outcome"] == {"type": "success"}
    assert Note.objects.filter(text="signed").count() == approved
    assert ("signed signed" in messages_at_end(events)[-1][1]) is approved


def test_an_approved_call_that_was_cut_beside_one_that_has_returned_is_asked_about(processes, gates):
    name = "signing beside"
    sign = {"do": "call", "tool": "sign", "id": "call-1", "args": {"text": "signed", "gate": name}}
    body = processes.body([[write("one"), sign], [{"do": "recite"}]])
    processes.post_here(body, mount="resume")
    post = answer_to(processes, processes.run(body), status="resolved", payload={"approved": True})
    job = processes.post(post, mount="resume")
    gates.wait_reached(name)
    job.kill()
    gates.open(name)
    processes.recover()
    run = processes.run(post)
    assert [(question["reason"], question["toolCallId"]) for question in run.interrupts] == [
        ("unknown_effect", "call-1")
    ]
    events = processes.post_here(
        answer_to(processes, run, status="resolved", payload={"approved": True}), mount="resume"
    )
    recited = "".join(event["delta"] for event in of_type(events, "TEXT_MESSAGE_CONTENT"))
    assert "wrote one" in recited
    assert VERDICTS[Verdict.HAPPENED] in recited
    assert (gates.count(name), Note.objects.filter(text="signed").count()) == (1, 1)


def test_what_has_been_called_takes_no_other_arguments(processes, gates):
    name = "edited too late"
    body = cut_in(processes, gates, name, [[spell("first"), write("one"), hold(name)], ["never said"]], "resume")
    run = processes.run(body)
    post = answer_to(processes, run, status="resolved", payload={"approved": True, "editedArgs": {"gate": "other"}})
    response = processes.client.post("/resume/", json.dumps(post), content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_answer")
    assert processes.run(body).pending_interrupts == 1
    assert ToolEffect.objects.get(run=run.key, tool_name="hold").verdict == ""


def test_of_parallel_calls_only_those_that_may_have_acted_are_asked_about(processes, gates):
    name = "two of four"
    calls = [write("one"), hold(name), {**hold(name), "id": "hold-2"}, lookup(name)]
    body, job = interrupted(processes, gates, name, [[spell("first"), *calls], [{"do": "recite"}]], "resume")
    gates.wait_reached(name, 3)
    eventually(lambda: b"wrote one" in job.text)
    job.kill()
    gates.open(name)
    processes.recover()
    events = processes.check(body, job)
    run = processes.run(body)
    assert [question["toolCallId"] for question in run.interrupts] == ["hold", "hold-2"]
    results = {event["toolCallId"]: event["content"] for event in of_type(events, "TOOL_CALL_RESULT")}
    assert results == {"write-one": "wrote one", "lookup": INTERRUPTED_RESULT}
    answers = answer_to(processes, run, status="resolved", payload={"approved": True})
    answers["resume"][1]["payload"] = {"approved": False}
    half = {**answers, "resume": answers["resume"][:1]}
    response = processes.client.post("/resume/", json.dumps(half), content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "answers_missing")
    told = of_type(processes.post_here(answers, mount="resume"), "TOOL_CALL_RESULT")
    assert {event["toolCallId"]: "lost" in event["content"] for event in told} == {"hold": True, "hold-2": False}
    assert gates.count(name) == 3
    verdicts = ToolEffect.objects.filter(run=run.key).values_list("tool_call_id", "verdict")
    assert dict(verdicts) == {"write-one": "", "hold": "happened", "hold-2": "did_not_happen", "lookup": ""}


def test_without_a_ledger_an_idempotent_tool_is_called_again(processes, gates):
    name = "no ledger"
    body, job = interrupted(processes, gates, name, [[lookup(name)], [{"do": "recite"}]], "resume-bare")
    job.kill()
    gates.open(name)
    processes.recover()
    events = processes.check(body, job)
    assert processes.run(body).status is RunStatus.FINISHED
    assert gates.count(name) == 2
    assert f"found {name}" in messages_at_end(events)[-1][1]
    assert not ToolEffect.objects.exists()


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("happened", "The tool has run, but its result was lost."),
        ("did_not_happen", "the tool has done nothing"),
        ("ignored", "Nobody knows whether the tool has done anything"),
    ],
)
@pytest.mark.parametrize("mount", MOUNTS)
def test_a_call_that_was_settled_before_is_not_made_again_and_the_model_hears_the_verdict(
    processes, gates, mount, verdict, told
):
    name = f"{verdict} on {mount}"
    script = [[spell("first"), hold(name), lookup(name)], [{"do": "recite"}]]
    body, job = interrupted(processes, gates, name, script, mount)
    gates.wait_reached(name, 2)
    job.kill()
    gates.open(name)
    run = processes.run(body)
    call_command("settle_effect", effect_of(run, "hold"), verdict)
    processes.recover()
    events = processes.check(body, job)
    assert (processes.run(body).status, processes.run(body).attempt) == (RunStatus.FINISHED, 2)
    # That of `hold`, and two of the idempotent tool, of which nobody has said anything.
    assert gates.count(name) == 3
    results = {event["toolCallId"]: event["content"] for event in of_type(events, "TOOL_CALL_RESULT")}
    assert told in results["hold"]
    assert told in messages_at_end(events)[-1][1]
    assert effects(processes, body)["hold"] == (EffectStatus.STARTED, "crash")


def effect_of(run, tool):
    return str(ToolEffect.objects.get(run=run.key, tool_name=tool).pk)


def test_a_call_of_a_run_whose_process_lives_is_not_settled(processes, gates):
    name = "still going on"
    body, _ = interrupted(processes, gates, name, [[hold(name)], ["done"]], "resume")
    with pytest.raises(CommandError, match="may still be going on"):
        call_command("settle_effect", effect_of(processes.run(body), "hold"), "happened")
    assert effects(processes, body)["hold"] == (EffectStatus.STARTED, "")
    gates.open(name)
    eventually(lambda: not processes.run(body).status.is_live)
    assert processes.run(body).status is RunStatus.FINISHED


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_second_crash_in_the_second_attempt_is_survived_too(processes, gates, mount):
    first, second = f"first crash on {mount}", f"second crash on {mount}"
    script = [[gate(first), write("one")], [spell("more"), gate(second), {"do": "recite"}]]
    body, job = interrupted(processes, gates, first, script, mount)
    job.kill()
    gates.open(first)
    other = processes.start("recover")
    gates.wait_reached(second)
    wait_completed()
    other.kill()
    assert processes.run(body).attempt == 2
    gates.open(second)
    processes.recover()
    events = processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.attempt) == (RunStatus.FINISHED, 3)
    assert Note.objects.count() == 1
    assert len(of_type(events, "MESSAGES_SNAPSHOT")) == 2
    assert [text for role, text in messages_at_end(events) if role == "tool"] == ["wrote one"]
    if mount == "resume":
        assert [(message["role"], text_of(message)) for message in processes.thread(mount)["messages"]] == (
            messages_at_end(events)
        )


def test_after_so_many_attempts_the_run_is_ended(processes, gates, settings):
    settings.DJANGO_PYDANTIC_AGENT = settings.DJANGO_PYDANTIC_AGENT | {"MAX_ATTEMPTS": 1}
    name = "too many"
    body, job = interrupted(processes, gates, name, [[spell("half"), gate(name)]], "resume")
    job.kill()
    processes.recover()
    processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.attempt) == (RunStatus.ORPHANED, 1)


def test_a_resumed_run_is_stopped_from_any_process(processes, gates):
    name = "stopped in its second attempt"
    body, job = interrupted(processes, gates, name, [[spell("half"), gate(name)]], "resume")
    job.kill()
    other = processes.start("recover")
    gates.wait_reached(name, 2)
    assert get_engine().request_cancel(processes.run(body).key, store=durable_store())
    eventually(lambda: not processes.run(body).status.is_live, seconds=5)
    other.wait_done()
    processes.check(body, job)
    run = processes.run(body)
    assert (run.status, run.attempt) == (RunStatus.CANCELLED, 2)


def test_a_run_that_was_to_stop_when_its_process_died_is_not_resumed(processes, gates):
    name = "to be stopped"
    body, job = interrupted(processes, gates, name, [[spell("half"), gate(name)]], "resume")
    job.kill()
    assert get_engine().request_cancel(processes.run(body).key, store=durable_store())
    processes.recover()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.CANCELLED


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_resumed_run_can_be_continued_from_its_last_snapshot(processes, gates, mount):
    name = f"continued on {mount}"
    body, job = interrupted(processes, gates, name, [[write("one")], [gate(name), "the answer"]], mount)
    wait_completed()
    job.kill()
    gates.open(name)
    processes.recover()
    run = processes.run(body)
    assert run.continuable
    turn = processes.body([[{"do": "recite"}]])
    events = processes.post_here(turn, mount=f"{mount}/resume/{body['runId']}")
    recited = "".join(event["delta"] for event in of_type(events, "TEXT_MESSAGE_CONTENT"))
    assert "wrote one" in recited
    assert "the answer" in recited
    assert Run.objects.get(run_id=turn["runId"]).parent_run_id == body["runId"]


def test_killed_between_its_answer_and_its_end_a_run_is_finished_without_asking_again(processes, gates):
    body, job = interrupted(processes, gates, AT_THE_END, [[spell("all of it")]], "resume-held")
    eventually(lambda: Run.objects.filter(run_id=body["runId"], boundary_seq__gt=3).exists())
    job.kill()
    processes.recover()
    events = processes.check(body, job)
    assert processes.run(body).status is RunStatus.FINISHED
    assert gates.count(AT_THE_END) == 1
    assert messages_at_end(events)[1:] == [("assistant", "all of it")]


@pytest.mark.node
def test_stock_clients_that_follow_a_run_over_its_crashes_show_what_the_thread_holds(processes, gates, stock_client):
    think = {"do": "think", "text": "hmm"}
    scripts = {
        "a text": lambda name: [[spell("half"), gate(name), "done"]],
        "a thought": lambda name: [[think, gate(name), "done"]],
        "a second thought": lambda name: [[think, write("one")], [think, spell("half"), gate(name), "done"]],
        "parallel tools": lambda name: [[think, spell("go"), lookup(name), write("two")], [{"do": "recite"}]],
        "a call that was not made": lambda name: [[spell("go"), write("three"), gate(name)], ["done"]],
    }
    for name, script in scripts.items():
        body, job = interrupted(processes, gates, name, script(name), "resume", thread_id=name, state={"kept": 1})
        run = processes.run(body)
        eventually(lambda run=run: not ToolEffect.objects.filter(run=run.key, tool_name="write", status="started"))
        job.kill()
        gates.open(name)
        processes.recover()
        processes.check(body, job)
        assert processes.run(body).status is RunStatus.FINISHED, name
        thread = processes.thread("resume", thread_id=name)
        frames = durable_store().read_frames(run.key, after=0, max_bytes=1 << 24)
        for version in CLIENT_VERSIONS:
            shown = [frame if version == "1.0.0" else for_older_viewer(frame) for frame in frames]
            (answer,) = stock_client.answers(Stream([], body["messages"], body["state"]), shown, version=version)
            assert answer["error"] is None, (name, version)
            assert answer["state"] == thread["state"] == {"kept": 1}
            assert answer["messages"] == thread["messages"], (name, version)


def foreign(store, method, **query):
    """Return what a foreign step store answers."""
    return async_to_sync(getattr(store, method))(**query)


def test_a_foreign_step_store_knows_each_attempt_as_a_run_of_its_own(processes, gates, env):
    name = "foreign store"
    script = [[spell("go"), write("one"), lookup(name)], [{"do": "recite"}]]
    body, job = interrupted(processes, gates, name, script, "resume-foreign")
    eventually(lambda: b"wrote one" in job.text)
    job.kill()
    gates.open(name)
    processes.recover()
    processes.check(body, job)
    assert processes.run(body).status is RunStatus.FINISHED
    assert (Note.objects.count(), gates.count(name)) == (1, 2)
    store = SqliteStepStore(database=env["FOREIGN_STEPS"])
    attempts = [body["runId"], f"{body['runId']}\x1f2"]
    assert foreign(store, "get_run", run_id=attempts[1]).parent_run_id == attempts[0]
    recorded = [foreign(store, "get_tool_effect", run_id=run_id, tool_call_id="lookup").status for run_id in attempts]
    assert recorded == ["started", "completed"]
    assert foreign(store, "get_tool_effect", run_id=attempts[1], tool_call_id="write-one") is None
    turn = processes.body([[{"do": "recite"}]])
    events = processes.post_here(turn, mount=f"resume-foreign/resume/{body['runId']}")
    recited = "".join(event["delta"] for event in of_type(events, "TEXT_MESSAGE_CONTENT"))
    assert f"found {name}" in recited


def test_in_a_foreign_step_store_a_tool_that_may_have_acted_is_found_too(processes, gates):
    name = "unknown in a foreign store"
    body, job = interrupted(processes, gates, name, [[hold(name)], ["never said"]], "resume-foreign")
    job.kill()
    gates.open(name)
    processes.recover()
    processes.check(body, job)
    run = processes.run(body)
    assert run.status is RunStatus.INTERRUPTED
    events = processes.post_here(
        answer_to(processes, run, status="resolved", payload={"approved": True}), mount="resume-foreign"
    )
    assert [event["content"] for event in of_type(events, "TOOL_CALL_RESULT")] == [VERDICTS[Verdict.HAPPENED]]
    assert gates.count(name) == 1
