"""What a step store knows about runs that the engine keeps elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync

from django_pydantic_agent.stores.base import StoredRun

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

PREVIEW_CHARACTERS = 120


def with_ledger(step_store: Any, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs with `continuable` and `preview` as the step store has them.

    A store that records through the engine has both in the run's own row; any other is asked for each run.
    """
    if step_store is None or hasattr(step_store, "recording"):
        return list(runs)
    snapshots = _latest_snapshots(step_store, [run.run_id for run in runs])
    return [
        replace(run, continuable=snapshot is not None, preview=snapshot and preview_of(snapshot.messages))
        for run, snapshot in zip(runs, snapshots, strict=True)
    ]


def has_open_end(step_store: Any, run_id: str) -> bool:
    """Return whether the run's last complete snapshot ends in something that the model has yet to answer."""
    (snapshot,) = _latest_snapshots(step_store, [run_id])
    return snapshot is not None and bool(snapshot.messages) and snapshot.messages[-1].kind == "request"


def preview_of(messages: "Sequence[ModelMessage]") -> str:
    """Return the text of the first user message on one line, cut at `PREVIEW_CHARACTERS`."""
    for message in messages:
        for part in message.parts:
            if part.part_kind == "user-prompt":
                content = [part.content] if isinstance(part.content, str) else part.content
                line = " ".join(" ".join(text.split()) for text in content if isinstance(text, str))
                return line if len(line) <= PREVIEW_CHARACTERS else f"{line[: PREVIEW_CHARACTERS - 1]}…"
    return ""


@async_to_sync
async def _latest_snapshots(step_store: Any, run_ids: list[str]) -> list[Any]:
    return [await step_store.latest_snapshot(run_id=run_id) for run_id in run_ids]
