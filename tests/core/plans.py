"""Short ways to start a run of a scripted agent on the engine, without HTTP."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from pydantic_ai import Agent

from django_pydantic_agent.log.accept import accept_transcript, parse_input
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.plan import AgentConfig, RunPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.memory import MemoryRunStore
from django_pydantic_agent.testing.models import Script, ScriptedModel

OWNER = Owner("user:1")

_numbers = count(1)


def plan(
    script: Script | None = None,
    *,
    agent: Any = None,
    store: RunStore | None = None,
    run_id: str | None = None,
    messages: Sequence[dict[str, Any]] = ({"id": "u1", "role": "user", "content": "go"},),
    owner: Owner | None = OWNER,
    **config: Any,
) -> RunPlan:
    """Return a plan for a run of `agent`, or of an agent that follows `script`."""
    run_id = run_id or f"run-{next(_numbers)}"
    body = json.dumps({"threadId": "t1", "runId": run_id, "messages": list(messages)}).encode()
    return RunPlan(
        config=AgentConfig(source=agent or Agent(ScriptedModel(script or [["hello"]])), server="ag_ui", **config),
        request=RunRequest(user=None, owner=owner, run_id=run_id, thread_id="t1", body=body),
        run_input=accept_transcript(parse_input(body)),
        store=store or MemoryRunStore(),
        digest=run_id,
    )


def start(run_plan: RunPlan) -> StoredRun:
    return get_engine().start(run_plan)


def events(run_plan: RunPlan, run: StoredRun | None = None, *, after: int = 0) -> list[dict[str, Any]]:
    """Follow the run of a plan, starting it unless it was started, to its end."""
    run = run or start(run_plan)
    follower = get_engine().follow(run, store=run_plan.store, after=after, idle_seconds=30)
    return [json.loads(frame) for batch in follower for frame in batch.frames]


def stored(run_plan: RunPlan) -> StoredRun:
    run = run_plan.store.get(owner=run_plan.request.owner, scope=run_plan.scope, run_id=run_plan.run_input.run_id)
    assert run is not None
    return run


def types(found: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in found]
