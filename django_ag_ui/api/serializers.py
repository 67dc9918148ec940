"""Runs as answers show them."""

from datetime import UTC, datetime
from typing import Any

from django_ag_ui.api.paths import encode_id
from django_pydantic_agent.stores.base import StoredRun


def run_row(run: StoredRun, *, mount: str, with_steps: bool) -> dict[str, Any]:
    """Return a row of `runs/`; `mount` is the path of the mount, `with_steps` says that it has a step store."""
    segment = encode_id(run.run_id)
    links = {"self": f"{mount}runs/{segment}/"}
    if with_steps and run.continuable:
        links |= {"resume": f"{mount}resume/{segment}/", "fork": f"{mount}fork/{segment}/"}
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "parent_run_id": run.parent_run_id,
        "started_at": timestamp(run.started_at),
        "continuable": run.continuable,
        "preview": run.preview,
        "status": str(run.status),
        "finished_at": timestamp(run.finished_at),
        "title": None,
        "last_seq": run.last_seq,
        "unresolved_effects": run.unresolved_effects,
        "pending_interrupts": run.pending_interrupts,
        "links": links,
    }


def run_detail(run: StoredRun, *, mount: str, with_steps: bool) -> dict[str, Any]:
    """Return the row with what only one run's own page shows."""
    return run_row(run, mount=mount, with_steps=with_steps) | {
        "applied_seq": run.last_seq,
        "durable_seq": run.last_seq,
        "attempt": run.attempt,
        "error": run.error,
        "interrupts": run.interrupts,
    }


def timestamp(moment: datetime | None) -> str | None:
    """Return a moment in UTC to the second, such as `2026-07-27T12:00:00+00:00`."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
