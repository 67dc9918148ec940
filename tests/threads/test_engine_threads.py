"""Runs in threads, on the engine and the real stores, without HTTP."""

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, UserPromptPart

from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.testing.models import Failure, Gate, ScriptedModel, Text, ToolCall
from tests.threads.talk import Talk

pytestmark = pytest.mark.django_db(transaction=True)


def heard(model):
    """Return what the model's last request held, as (role, text)."""
    said = []
    for message in model.requests[-1]:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                said.append(("user", part.content))
            elif isinstance(message, ModelResponse) and isinstance(part, TextPart):
                said.append(("assistant", part.content))
    return said


def texts(thread):
    return [(message["role"], message.get("content")) for message in thread.messages if message.get("content")]


def test_the_model_sees_the_whole_conversation_and_the_thread_holds_it_in_order():
    model = ScriptedModel([["answer"]])
    talk = Talk(Agent(model))
    for text in ("one", "two", "three"):
        talk.say(text)
    assert heard(model) == [
        ("user", "one"),
        ("assistant", "answer"),
        ("user", "two"),
        ("assistant", "answer"),
        ("user", "three"),
    ]
    thread = talk.read()
    assert texts(thread) == [
        (role, text) for turn in ("one", "two", "three") for role, text in (("user", turn), ("assistant", "answer"))
    ]
    assert thread.revision == 6
    assert thread.active_run is None


def test_started_and_terminal_frames_carry_the_revision_and_stored_ids_are_the_streamed_ones():
    talk = Talk(Agent(ScriptedModel([[Text("hello", chunk=2)]])))
    found = talk.say("hi")
    assert found[0]["metadata"] == {"django_ag_ui": {"revision": 1}}
    assert found[-1]["metadata"] == {"django_ag_ui": {"revision": 2}}
    streamed = [event["messageId"] for event in found if event["type"] == "TEXT_MESSAGE_START"]
    assert [message["id"] for message in talk.read().messages if message["role"] == "assistant"] == streamed


def test_a_turn_is_stored_at_every_boundary_while_it_goes_on():
    gate = Gate()
    agent = Agent(ScriptedModel([[Text("let me see"), ToolCall("look")], [gate, Text("done")]]))

    @agent.tool_plain
    def look() -> str:
        return "found"

    talk = Talk(agent)
    run = talk.start("go")
    gate.wait_reached()
    thread = talk.read()
    assert thread.active_run.run_id == run.run_id
    gate.open()
    talk.events(run)
    roles = [message["role"] for message in talk.read().messages]
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_a_turn_waits_for_the_one_ahead_and_sees_its_answer():
    gate = Gate()
    model = ScriptedModel(lambda prompt: [[gate, Text("first")]] if prompt == "one" else [["second"]])
    talk = Talk(Agent(model))
    first = talk.start("one")
    gate.wait_reached()
    second = talk.start("two")
    gate.open()
    talk.events(first)
    talk.events(second)
    assert heard(model) == [("user", "one"), ("assistant", "first"), ("user", "two")]
    assert [text for _, text in texts(talk.read())] == ["one", "first", "two", "second"]


def test_a_queued_turn_that_is_cancelled_is_still_heard_by_the_next():
    gate = Gate()
    model = ScriptedModel(lambda prompt: [[gate, Text("first")]] if prompt == "one" else [["last"]])
    talk = Talk(Agent(model))
    first = talk.start("one")
    gate.wait_reached()
    second = talk.start("two")
    get_engine().cancel(second.key, store=talk.store)
    assert talk.events(second)[-1]["outcome"] == {"type": "cancelled"}
    gate.open()
    talk.events(first)
    talk.say("three")
    said = [text for _, text in heard(model)]
    assert said[:2] == ["one", "first"]
    assert "two" in str(said)
    assert "three" in str(said)


def test_what_a_cut_run_had_said_is_part_of_the_history():
    gate = Gate()
    model = ScriptedModel(lambda prompt: [[Text("half a sen"), gate]] if prompt == "one" else [["again"]])
    talk = Talk(Agent(model))
    run = talk.start("one")
    gate.wait_reached()
    get_engine().cancel(run.key, store=talk.store)
    talk.events(run)
    talk.say("two")
    assert heard(model) == [("user", "one"), ("assistant", "half a sen"), ("user", "two")]


def test_a_failed_turn_goes_on_from_its_last_boundary_without_running_its_tools_again():
    ran, failing = [], [True]

    def script(messages):
        return [Failure(RuntimeError("no"))] if failing[0] else ["after all"]

    model = ScriptedModel([[ToolCall("count")], script])
    agent = Agent(model)

    @agent.tool_plain
    def count() -> int:
        ran.append(1)
        return len(ran)

    talk = Talk(agent)
    assert talk.say("go")[-1]["type"] == "RUN_ERROR"
    failing[0] = False
    failed = talk.view().turns[-1].run
    found = talk.say(goes_on=failed, continues=failed)
    assert found[-1]["type"] == "RUN_FINISHED"
    assert ran == [1]
    assert [role for role, _ in texts(talk.read())] == ["user", "tool", "assistant"]


def test_a_regenerated_answer_replaces_the_old_one_which_stays_readable():
    answers = iter(["old", "new"])
    model = ScriptedModel([lambda messages: [next(answers)]])
    talk = Talk(Agent(model))
    talk.say("question")
    view = talk.view()
    talk.say(regenerates=True, supersede_from=1, continues=view.turns[-1].run)
    assert texts(talk.read()) == [("user", "question"), ("assistant", "new")]
    assert heard(model) == [("user", "question")]
    [branch] = talk.read(superseded=True).superseded
    assert [message["content"] for message in branch.messages] == ["old"]


def test_an_edit_begins_where_the_turn_before_ended():
    model = ScriptedModel([["answer"]])
    talk = Talk(Agent(model))
    talk.say("one")
    talk.say("two")
    talk.say("two, better", supersede_from=2)
    assert heard(model) == [("user", "one"), ("assistant", "answer"), ("user", "two, better")]
    assert [text for _, text in texts(talk.read())] == ["one", "answer", "two, better", "answer"]


def test_a_client_that_is_behind_is_caught_up_right_after_the_start():
    talk = Talk(Agent(ScriptedModel([["answer"]])))
    talk.say("one")
    found = talk.say("two", catches_up=True)
    assert [event["type"] for event in found[:4]] == [
        "RUN_STARTED",
        "MESSAGES_SNAPSHOT",
        "MESSAGES_SNAPSHOT",
        "STATE_SNAPSHOT",
    ]
    assert [message["content"] for message in found[1]["messages"]] == ["one", "answer"]
    assert [message["content"] for message in found[2]["messages"]] == ["one", "answer", "two"]
    assert [text for _, text in texts(talk.read())] == ["one", "answer", "two", "answer"]


def test_catching_up_keeps_no_more_uncommitted_than_the_rest_of_a_run(settings, monkeypatch):
    talk = Talk(Agent(ScriptedModel([["answer"]])))
    talk.say("x" * 4_000)
    settings.DJANGO_PYDANTIC_AGENT = {"PENDING_BYTES": 2_000}
    commits, real = [], DatabaseRunStore.commit

    def commit(self, writes):
        frames = [frame for write in writes for frame in write.frames]
        commits.append(sum(b"MESSAGES_SNAPSHOT" in frame for frame in frames))
        return real(self, writes)

    monkeypatch.setattr(DatabaseRunStore, "commit", commit)
    talk.say("two", catches_up=True)
    assert (sum(commits), max(commits)) == (2, 1)
