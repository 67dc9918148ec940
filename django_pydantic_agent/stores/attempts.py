"""The ids by which the agent and the ledger know the attempts at a run, the first of which has the run's own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot

    from django_pydantic_agent.stores.base import StoredRun

SEPARATOR = "\x1f"
"""No client's id holds a control character, so no attempt has the id of another run."""


def attempt_id(run_id: str, attempt: int) -> str:
    """Return the id of the attempt of this number, the first of which is 1."""
    return run_id if attempt == 1 else f"{run_id}{SEPARATOR}{attempt}"


def split_attempt(ledger_id: str) -> tuple[str, str]:
    """Return the run id in an id of the ledger, and the number of the attempt in digits, empty for the first one."""
    run_id, _, number = ledger_id.rpartition(SEPARATOR)
    return (run_id, number) if run_id and number.isdecimal() else (ledger_id, "")


async def latest_snapshot(
    step_store: Any, run: "StoredRun", *, include_interrupted: bool = False
) -> "ContinuableSnapshot | None":
    """Return the last snapshot of a run, of the complete ones unless `include_interrupted`.

    It is that of the latest attempt that has one.
    """
    for ledger_id in run.ledger_ids:
        snapshot: ContinuableSnapshot | None = await step_store.latest_snapshot(
            run_id=ledger_id, include_interrupted=include_interrupted
        )
        if snapshot is not None:
            return snapshot
    return None
