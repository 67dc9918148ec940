"""The agent behind the pages: it plays the script in the user's message, and some of its tools wait or ask."""

from ag_ui.core import ActivityDeltaEvent, ActivitySnapshotEvent
from asgiref.sync import sync_to_async
from pydantic_ai import ToolReturn

from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.testing.models import ScriptedModel
from tests.live.agent import play
from tests.live.gates import count, pass_gate

registry = ToolRegistry("pages", model=ScriptedModel(play))


@registry.tool
async def hold(gate: str) -> str:
    """Wait at a gate of the test."""
    await pass_gate(gate)
    return f"passed {gate}"


@registry.tool
async def charge(number: int, gate: str) -> str:
    """Do something that must not be done twice, then wait at a gate of the test."""
    await sync_to_async(count)(f"charge {number}")
    await pass_gate(gate)
    return f"charged {number}"


@registry.tool(requires_approval=True)
def order(number: int) -> str:
    """Order something, if somebody approves."""
    count(f"order {number}")
    return f"ordered {number}"


@registry.tool
def plan(step: str) -> ToolReturn:
    """Show a plan, and change it."""
    snapshot = ActivitySnapshotEvent(message_id="plan", activity_type="PLAN", content={"steps": []})
    patch = [{"op": "add", "path": "/steps/-", "value": step}]
    delta = ActivityDeltaEvent(message_id="plan", activity_type="PLAN", patch=patch)
    return ToolReturn("planned", metadata=[snapshot, delta])
