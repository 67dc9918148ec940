"""Short ways to have the agent act and to look at what the ledger says of it."""

from typing import Any

from django_pydantic_agent.contrib.store.models import Run, ToolEffect
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores import durable_store
from tests.api.posting import events, post
from tests.effects.agent import GATES
from tests.sse import check_sequence

Json = dict[str, Any]


def say(client: Any, prompt: str, *, number: int = 1, mount: str = "talk", thread_id: str = "t") -> list[Json]:
    """Have the agent act and return the events; a call that waits to be cancelled is cancelled."""
    message = {"id": f"u{number}", "role": "user", "content": prompt}
    response = post(client, f"/{mount}/", f"r{number}", [message], thread_id=thread_id, protocolVersion="1.0")
    if "cancelled" in prompt:
        GATES["cancelled"].wait_reached()
        store, run = durable_store(), Run.objects.get(run_id=f"r{number}")
        get_engine().request_cancel(run.pk, store=store)
    found = events(response)
    check_sequence(found)
    return found


def status(run_id: str = "r1") -> RunStatus:
    return RunStatus(Run.objects.get(run_id=run_id).status)


def ledger(run_id: str = "r1") -> dict[str, tuple[str, str]]:
    """Return status and reason of each call of a run."""
    rows = ToolEffect.objects.filter(run__run_id=run_id).values_list("tool_call_id", "status", "reason")
    return {call: (state, reason) for call, state, reason in rows}
