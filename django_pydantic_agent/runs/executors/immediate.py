"""Execution before `start()` returns, for the tests of a project."""

from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync

from django_pydantic_agent.runs.executors.base import BaseExecutor
from django_pydantic_agent.stores.base import NewRun, StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.runs.engine import Engine
    from django_pydantic_agent.runs.plan import RunPlan


class ImmediateExecutor(BaseExecutor):
    """Executes a run to its end in the caller's thread and on its connection, so that a `TestCase` sees all of it."""

    sees_open_transactions = True

    def start(self, engine: "Engine", plan: "RunPlan", new: NewRun) -> StoredRun:
        run = plan.store.create(new, on_commit=lambda *_: None)
        async_to_sync(engine.execute_here)(plan, run)
        return run
