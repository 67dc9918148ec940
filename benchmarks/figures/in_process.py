"""Runs of this process's own engine, on the database that is connected."""

import uuid

from ag_ui.core import RunAgentInput, UserMessage
from django.contrib.auth.models import User

from benchmarks.agents import Task, agent
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.engine import Engine
from django_pydantic_agent.runs.plan import AgentConfig, RunPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.stores import run_store_for

CONFIG = AgentConfig(source=agent, server="benchmarks", step_store=DefaultStepStore)


def execute(user: User, *tasks: Task) -> list[RunRequest]:
    """Execute a run for each task, one after the other, to its resting form."""
    owner = Owner.of_user(user)
    store, engine = run_store_for(owner), Engine()
    requests = []
    for task in tasks:
        run_id = uuid.uuid4().hex
        request = RunRequest(user=user, owner=owner, run_id=run_id, thread_id=run_id)
        run_input = RunAgentInput(
            thread_id=run_id,
            run_id=run_id,
            messages=[UserMessage(id=f"u-{run_id}", content=task.prompt())],
            state={},
            tools=[],
            context=[],
            forwarded_props={},
        )
        run = engine.start(RunPlan(config=CONFIG, request=request, run_input=run_input, store=store, digest=run_id))
        for _ in engine.follow(run, store=store):
            pass
        requests.append(request)
    engine.drain(grace_seconds=30)
    engine.stop()
    return requests
