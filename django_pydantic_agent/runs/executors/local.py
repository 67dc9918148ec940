"""Execution in the process that took the request."""

from functools import partial
from typing import TYPE_CHECKING

from django_pydantic_agent.runs.executors.base import BaseExecutor
from django_pydantic_agent.stores.base import NewRun, StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.runs.engine import Engine
    from django_pydantic_agent.runs.plan import RunPlan


class LocalExecutor(BaseExecutor):
    """Executes runs on the engine's event loop, in the background of whatever the process serves."""

    def start(self, engine: "Engine", plan: "RunPlan", new: NewRun) -> StoredRun:
        return plan.store.create(new, on_commit=partial(engine.launch, plan))
