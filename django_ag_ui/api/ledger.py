"""What a step store knows about runs that the engine keeps elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from asgiref.sync import async_to_sync

from django_ag_ui.api.views import AGUIView
from django_pydantic_agent.exceptions import RunNotFound
from django_pydantic_agent.stores.attempts import latest_snapshot
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.effects import StoredEffect


def with_ledger(step_store: Any, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs with `continuable`, `preview` and `unresolved_effects` as the step store has them.

    A store that records through the engine has them in the run's own row; any other is asked for each run.
    """
    if step_store is None or hasattr(step_store, "recording"):
        return list(runs)
    from django_pydantic_agent.log.preview import history_preview

    return [
        replace(
            run,
            continuable=snapshot is not None,
            preview=snapshot and history_preview(snapshot.messages),
            unresolved_effects=len(unresolved),
        )
        for run, (snapshot, unresolved) in zip(runs, _asked(step_store, runs), strict=True)
    ]


def calls_of(step_store: Any, run: StoredRun) -> list[StoredEffect]:
    """Return what the step store knows of a run's tool calls; of those that have ended only our own tells."""
    if hasattr(step_store, "list_tool_effects"):
        effects: list[StoredEffect] = async_to_sync(step_store.list_tool_effects)(run_id=run.run_id)
        return effects
    return [
        StoredEffect(
            key=0,
            run_id=run.run_id,
            tool_call_id=effect.tool_call_id,
            tool_name=effect.tool_name,
            status=effect.status,
            started_at=effect.started_at,
            ended_at=effect.ended_at,
            effect_summary=effect.effect_summary,
        )
        for effect in async_to_sync(_unresolved)(step_store, run)
    ]


def event_call_ids(view: AGUIView, run: StoredRun, called: Collection[str]) -> dict[str, str]:
    """Return the `toolCallId` that the events of a run give the latest call of each of these names, by the names.

    A name is the id that the model gave, and may give again in a conversation. One that no event holds is left out.
    """
    if not called:
        return {}
    from django_pydantic_agent.log.call_ids import model_id
    from django_pydantic_agent.log.preamble import messages_told
    from django_pydantic_agent.runs.attach import preamble

    try:
        told = messages_told(preamble(run, store=view.run_store, conversation=view.conversation).frames) or ()
    except RunNotFound:
        told = ()
    ids = {model_id(call["id"]): call["id"] for message in told for call in message.get("toolCalls") or ()}
    return {name: ids[model_id(name)] for name in called if model_id(name) in ids}


def has_open_end(step_store: Any, run: StoredRun) -> bool:
    """Return whether the run's last complete snapshot ends in something that the model has yet to answer."""
    snapshot = async_to_sync(latest_snapshot)(step_store, run)
    return snapshot is not None and bool(snapshot.messages) and snapshot.messages[-1].kind == "request"


@async_to_sync
async def _asked(step_store: Any, runs: Sequence[StoredRun]) -> list[tuple[Any, list[Any]]]:
    """Return of each run the latest snapshot, None where there is none, and the unresolved effects."""
    return [(await latest_snapshot(step_store, run), await _unresolved(step_store, run)) for run in runs]


async def _unresolved(step_store: Any, run: StoredRun) -> list[Any]:
    """Return the unresolved effects of all attempts at a run, none where the store does not list them."""
    listed = getattr(step_store, "list_unresolved_tool_effects", None)
    if listed is None:
        return []
    return [effect for ledger_id in reversed(run.ledger_ids) for effect in await listed(run_id=ledger_id)]
