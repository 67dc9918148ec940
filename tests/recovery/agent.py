"""The agent of these tests: it plays the script in the user's message, and its tools leave traces."""

from typing import Any

from ag_ui.core import StateDeltaEvent
from pydantic_ai import RunContext, ToolReturn

from django_pydantic_agent import AgentDeps, ToolRegistry
from django_pydantic_agent.testing.models import ScriptedModel
from example_project.notebook.models import Note
from tests.live.agent import play
from tests.live.gates import pass_gate

registry = ToolRegistry("recovery", model=ScriptedModel(play))


@registry.tool
def write(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user."""
    Note.objects.create(user=ctx.deps.user, text=text)
    return f"wrote {text}"


@registry.tool
async def hold(gate: str) -> str:
    """Wait at a gate of the test."""
    await pass_gate(gate)
    return f"passed {gate}"


@registry.tool
def remember(number: int) -> Any:
    """Append a number to the state."""
    patch = [{"op": "add", "path": "/numbers/-", "value": number}]
    return ToolReturn("remembered", metadata=[StateDeltaEvent(delta=patch)])
