"""What a turn sends to the database, by the length of its thread."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

from django.contrib.auth.models import User

from benchmarks.agents import Task
from benchmarks.figures import viewer
from benchmarks.figures.in_process import planned
from benchmarks.meter import metered
from benchmarks.report import Bound, Measured
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.log.frames import wire_form
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.engine import Engine
from django_pydantic_agent.runs.plan import ThreadPlan
from django_pydantic_agent.stores.conversations import TurnStart

LENGTHS = (10, 100, 1000)


def measure(rounds: int) -> Iterator[Measured]:
    costs = [bytes_of_a_turn(viewer(), behind=length) for length in LENGTHS]
    for length, cost in zip(LENGTHS, costs, strict=True):
        yield Measured(f"bytes sent by a turn behind {length} messages", cost, "B")
    yield Measured("bytes sent by a turn, 1,000 messages against 10", costs[-1] / costs[0], "", Bound(at_most=1.1))


def bytes_of_a_turn(user: User, *, behind: int) -> int:
    """Return what one more turn sends in a new thread that holds `behind` messages."""
    engine, conversation, thread_id = Engine(), DefaultConversationStore(), uuid.uuid4().hex
    for _ in range(behind // 2):
        turn(engine, conversation, user, thread_id)
    engine.drain(grace_seconds=30)
    with metered() as meter:
        turn(engine, conversation, user, thread_id)
        engine.drain(grace_seconds=30)
        engine.stop()
    return meter.bytes


def turn(engine: Engine, conversation: DefaultConversationStore, user: User, thread_id: str) -> None:
    plan = planned(user, Task(deltas=20))
    owner = Owner.of_user(user)
    thread = conversation.view(owner=owner, thread_id=thread_id)
    start = TurnStart(
        owner=owner,
        thread_id=thread_id,
        revision=None if thread is None else thread.revision,
        messages=[wire_form(message) for message in plan.run_input.messages],
    )
    plan = replace(
        plan,
        request=replace(plan.request, thread_id=thread_id),
        run_input=plan.run_input.model_copy(update={"thread_id": thread_id}),
        thread=ThreadPlan(conversation=conversation, start=start),
    )
    run = engine.start(plan)
    for _ in engine.follow(run, store=plan.store):
        pass
