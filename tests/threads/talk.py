"""A thread on the engine and the real stores, without HTTP."""

import json
from itertools import count

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.log.accept import parse_input
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.plan import AgentConfig, RunPlan, ThreadPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.stores import run_store_for
from django_pydantic_agent.stores.conversations import TurnStart
from tests.sse import check_sequence

OWNER = Owner("user:1")
_numbers = count(1)


class Talk:
    """A thread, and short ways to act in it."""

    def __init__(self, agent, conversation=None, *, thread_id="t", **config):
        self.agent = agent
        self.thread_id = thread_id
        self.config = config
        self.conversation = conversation or DefaultConversationStore()
        self.store = run_store_for(OWNER)

    def view(self):
        return self.conversation.view(owner=OWNER, thread_id=self.thread_id)

    def read(self, **keywords):
        return self.conversation.read(owner=OWNER, thread_id=self.thread_id, **keywords)

    def start(self, text=None, *, state=None, supersede_from=None, continues=None, **thread):
        number = next(_numbers)
        messages = [] if text is None else [{"id": f"u{number}", "role": "user", "content": text}]
        posted = {"threadId": self.thread_id, "runId": f"r{number}", "messages": messages, "state": state}
        view = self.view()
        turn = TurnStart(
            owner=OWNER,
            thread_id=self.thread_id,
            revision=None if view is None else view.revision,
            messages=messages,
            supersede_from=supersede_from,
            continues=continues,
        )
        plan = RunPlan(
            config=AgentConfig(source=self.agent, server="ag_ui", **self.config),
            request=RunRequest(user=None, owner=OWNER, run_id=f"r{number}", thread_id=self.thread_id),
            run_input=parse_input(json.dumps(posted).encode()),
            store=self.store,
            digest="",
            thread=ThreadPlan(conversation=self.conversation, start=turn, **thread),
        )
        return get_engine().start(plan)

    def events(self, run):
        follower = get_engine().follow(run, store=self.store, idle_seconds=30)
        found = [json.loads(frame) for batch in follower for frame in batch.frames]
        check_sequence(found)
        return found

    def say(self, text=None, **keywords):
        return self.events(self.start(text, **keywords))
