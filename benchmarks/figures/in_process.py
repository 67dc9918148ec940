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


def planned(user: User, task: Task) -> RunPlan:
    """Return a new run of a user."""
    owner, run_id = Owner.of_user(user), uuid.uuid4().hex
    return RunPlan(
        config=CONFIG,
        request=RunRequest(user=user, owner=owner, run_id=run_id, thread_id=run_id),
        run_input=RunAgentInput(
            thread_id=run_id,
            run_id=run_id,
            messages=[UserMessage(id=f"u-{run_id}", content=task.prompt())],
            state={},
            tools=[],
            context=[],
            forwarded_props={},
        ),
        store=run_store_for(owner),
        digest=run_id,
    )


def execute(user: User, *tasks: Task) -> list[RunRequest]:
    """Execute a run for each task, one after the other, to its resting form."""
    engine = Engine()
    plans = [planned(user, task) for task in tasks]
    for plan in plans:
        run = engine.start(plan)
        for _ in engine.follow(run, store=plan.store):
            pass
    engine.drain(grace_seconds=30)
    engine.stop()
    return [plan.request for plan in plans]
