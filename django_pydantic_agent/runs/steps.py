"""The harness's step persistence for one run of the engine."""

from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.capabilities import AbstractCapability

from django_pydantic_agent.runs.effects import SettledStepPersistence
from django_pydantic_agent.runs.hooks import RunHooks
from django_pydantic_agent.stores.base import RunHistory, StoredRun
from django_pydantic_agent.stores.steps import UncopiedStepPersistence


@dataclass
class RecordedRunHooks(RunHooks, SettledStepPersistence, UncopiedStepPersistence):
    """The hooks of the engine and those that record steps, in one capability."""

    id: str | None = field(default="step_persistence", kw_only=True)


def with_steps(
    hooks: RunHooks,
    store: Any,
    journal: Any,
    *,
    history: RunHistory | None,
    run: StoredRun,
    parent: StoredRun | None,
) -> tuple[Any, list[AbstractCapability[Any]]]:
    """Return the run's handle on `store`, and the capabilities that do what `hooks` does and write to it.

    A store that can record through the engine serialises what is new before it returns, so nothing is copied for it; it
    shares what `history` keeps of the run, and keeps all attempts at it in one place. In any other store a later
    attempt is a run of its own, whose parent is the run.
    """
    about: dict[str, Any] = {
        "run_id": run.ledger_ids[0],
        "parent_run_id": parent.run_id if parent else None,
        "capture_frontier": True,
    }
    if not hasattr(store, "recording"):
        if run.attempt > 1:
            about["parent_run_id"] = run.run_id
        return store, [hooks, SettledStepPersistence(store=store, **about)]
    store = store.recording(journal, history, audit=hooks.audit)
    recorded = RecordedRunHooks(
        store=store,
        thread=hooks.thread,
        reached=hooks.reached,
        failure_policy=hooks.failure_policy,
        audit=hooks.audit,
        **about,
    )
    return store, [recorded]
