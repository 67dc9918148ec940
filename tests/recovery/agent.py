"""The agent of these tests: it plays the script in the user's message, and its tools leave traces."""

from typing import Any

from ag_ui.core import StateDeltaEvent
from pydantic_ai import RunContext, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.run import AgentRunResult

from django_pydantic_agent import AgentDeps, ToolRegistry
from django_pydantic_agent.testing.models import ScriptedModel
from example_project.notebook.models import Note
from tests.live.agent import play
from tests.live.gates import pass_gate

registry = ToolRegistry("recovery", model=ScriptedModel(play))

AT_THE_END = "at the end of a run"


def at_the_start(run_id: str) -> str:
    """Return the gate that a run of `HeldAtTheStart` passes before its agent does anything."""
    return f"start of {run_id}"


class HeldAtTheStart(AbstractCapability[Any]):
    """Holds runs whose id says so at a gate of their own before their agent does anything."""

    async def before_run(self, ctx: RunContext[Any]) -> None:
        if ctx.deps.run_id.startswith("held"):
            await pass_gate(at_the_start(ctx.deps.run_id))


class HeldAtTheEnd(AbstractCapability[Any]):
    """Holds a run at a gate once the model has given its answer."""

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await pass_gate(AT_THE_END)
        return result


@registry.tool
def write(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user."""
    Note.objects.create(user=ctx.deps.user, text=text)
    return f"wrote {text}"


@registry.tool
async def write_held(ctx: RunContext[AgentDeps], text: str, before: str, after: str) -> str:
    """Write a note of the user between two gates of the test."""
    await pass_gate(before)
    await Note.objects.acreate(user=ctx.deps.user, text=text)
    await pass_gate(after)
    return f"wrote {text}"


@registry.tool
async def hold(gate: str) -> str:
    """Wait at a gate of the test."""
    await pass_gate(gate)
    return f"passed {gate}"


@registry.tool(idempotent=True)
async def lookup(gate: str) -> str:
    """Wait at a gate of the test, as often as it is asked to."""
    await pass_gate(gate)
    return f"found {gate}"


@registry.tool(requires_approval=True)
async def sign(ctx: RunContext[AgentDeps], text: str, gate: str = "") -> str:
    """Write a note of the user if the user says so, and wait at a gate of the test."""
    await Note.objects.acreate(user=ctx.deps.user, text=text)
    if gate:
        await pass_gate(gate)
    return f"signed {text}"


@registry.tool
def remember(number: int) -> Any:
    """Append a number to the state."""
    patch = [{"op": "add", "path": "/numbers/-", "value": number}]
    return ToolReturn("remembered", metadata=[StateDeltaEvent(delta=patch)])
