"""Attaching to runs of threads on the engine: the preamble, and what follows it."""

import json

import pytest
from ag_ui.core import StateDeltaEvent, StateSnapshotEvent
from pydantic_ai import Agent, ToolReturn

from django_pydantic_agent.log.preamble import messages_told
from django_pydantic_agent.runs.attach import preamble
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.testing.models import Gate, Reasoning, ScriptedModel, Text, ToolCall
from django_pydantic_agent.threads.running import with_running_turn
from tests.core.folding import projected
from tests.core.streams import Stream
from tests.threads.talk import Talk

pytestmark = pytest.mark.django_db(transaction=True)


def told(talk, run):
    return preamble(run, store=talk.store, conversation=talk.conversation)


def add(path, value):
    return StateDeltaEvent(delta=[{"op": "add", "path": path, "value": value}])


def agent_with(script, *events):
    agent = Agent(ScriptedModel(script))

    @agent.tool_plain
    def note() -> ToolReturn:
        return ToolReturn("noted", metadata=list(events))

    return agent


def test_who_attaches_in_the_middle_of_a_turn_ends_with_what_everybody_has():
    gates = [Gate(), Gate(), Gate()]
    turns = {
        "one": [["answer"]],
        "two": [
            [Reasoning("hm"), gates[0], Text("let me"), ToolCall("note", chunk=1)],
            [Text("half"), gates[1], Text(" done"), ToolCall("note")],
            [gates[2], Text("over")],
        ],
    }
    talk = Talk(agent_with(turns.__getitem__, add("/notes/-", "n")))
    talk.say("one")
    before = talk.read().messages
    run = talk.start("two", state={"notes": []})
    viewers = []
    for gate in gates:
        gate.wait_reached()
        viewers.append(told(talk, run))
        gate.open()
    talk.events(run)
    log = talk.store.read_frames(run.key, after=0, max_bytes=10**9)
    everybody = projected(Stream([], before, {"notes": []}), log)
    assert everybody.state == {"notes": ["n", "n"]}
    for now in [*viewers, told(talk, run)]:
        joined = projected(Stream([]), [*now.frames, *log[now.seq :]])
        assert (joined.messages, joined.state) == (everybody.messages, everybody.state)
    assert everybody.messages == talk.read().messages


def test_a_thread_that_is_read_in_the_middle_of_a_turn_has_the_state_that_the_turn_changes():
    gate = Gate()
    agent = agent_with(lambda prompt: [[gate, ToolCall("note")], ["ok"]], add("/notes/-", "n"))
    talk = Talk(agent)
    Talk(Agent(ScriptedModel([["ok"]]))).say("one")
    run = talk.start("two", state={"notes": []})
    gate.wait_reached()
    thread = with_running_turn(talk.read(), talk.store)
    assert thread.state == {"notes": []}
    gate.open()
    talk.events(run)
    log = talk.store.read_frames(run.key, after=thread.active_run.applied_seq, max_bytes=10**9)
    assert projected(Stream([], thread.messages, thread.state), log).state == {"notes": ["n"]}
    assert with_running_turn(talk.read(), talk.store).state == {"notes": ["n"]}


def test_an_ended_turn_is_told_with_the_state_that_it_ended_with():
    agent = agent_with(lambda prompt: [[ToolCall("note")], ["ok"]], StateSnapshotEvent(snapshot={"n": 1}))
    talk = Talk(agent)
    quiet = Talk(Agent(ScriptedModel([["ok"]])))
    first = quiet.start("quiet", state={"posted": 1})
    quiet.events(first)
    second = talk.start("loud")
    talk.events(second)
    third = quiet.start("quiet again", state={"posted": 3})
    quiet.events(third)
    states = [json.loads(told(talk, run).frames[1])["snapshot"] for run in (first, second, third)]
    assert states == [{"posted": 1}, {"n": 1}, {"n": 1, "posted": 3}]
    assert [len(messages_told(told(talk, run).frames)) for run in (first, second, third)] == [2, 6, 8]


def test_a_turn_that_was_replaced_is_told_as_it_was():
    answers = iter(["old", "new"])
    talk = Talk(Agent(ScriptedModel([lambda messages: [next(answers)]])))
    old = talk.start("question")
    talk.events(old)
    before = told(talk, old)
    talk.say(regenerates=True, supersede_from=1, continues=old.key)
    assert [message["content"] for message in messages_told(before.frames)] == ["question", "old"]
    assert told(talk, old) == before


def test_a_queued_turn_that_is_cancelled_is_told_to_its_end():
    gate = Gate()
    talk = Talk(Agent(ScriptedModel(lambda prompt: [[gate, Text("first")]] if prompt == "one" else [["second"]])))
    first = talk.start("one", state={"n": 1})
    gate.wait_reached()
    second = talk.start("two")
    get_engine().cancel(second.key, store=talk.store)
    talk.events(second)
    frames = told(talk, second).frames
    assert json.loads(frames[-1])["outcome"] == {"type": "cancelled"}
    assert [message["content"] for message in messages_told(frames)] == ["one", "two"]
    gate.open()
    talk.events(first)
