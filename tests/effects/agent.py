"""An agent whose tools end in each way in which a call can end; the prompt says how: `act refused + pay now`."""

from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai_harness.step_persistence import StepPersistence, annotate_tool_effect

from django_pydantic_agent import AgentDeps, ToolRegistry
from django_pydantic_agent.runs.effects import SettledStepPersistence
from django_pydantic_agent.testing.models import Gates, ScriptedModel, ToolCall

SECRET = "secret-marker"
NUMBER = 2512292042121000001

GATES = Gates()
ACTED: list[str] = []


def script(prompt: str) -> list[Any]:
    calls = [call.split() for call in prompt.split(" + ")]
    if len(calls[0]) != 2:
        return [[f"echo {prompt}"]]
    return [[ToolCall(tool, {"how": how}, id=f"{tool}-{how}") for tool, how in calls], ["done"]]


model = ScriptedModel(script)
registry = ToolRegistry("effects", model=model)


def end(how: str) -> str:
    match how:
        case "raised":
            raise OSError(SECRET)
        case "retried":
            raise ModelRetry("try again")
        case "refused":
            raise ToolFailed("no")
        case "approval":
            raise ApprovalRequired
        case "deferred":
            raise CallDeferred
    ACTED.append(how)
    return how


async def act(how: str) -> str:
    """Act."""
    if how in ("timeout", "cancelled"):
        await GATES[how].arrive()
    return end(how)


def act_sync(how: str) -> str:
    """Act in a thread."""
    if how in ("timeout", "cancelled"):
        GATES[how].arrive_blocking()
    return end(how)


registry.add(act)
registry.add(act_sync)
registry.add(act, name="hurry", timeout=0.2)
registry.add(act_sync, name="hurry_sync", timeout=0.2)


@registry.tool
def pay(how: str, order: int = NUMBER, api_key: str = SECRET) -> dict[str, Any]:
    """Pay an order."""
    return {"order": order, "headers": [{"Authorization": SECRET}], "accessToken": SECRET, "paid": how}


@registry.tool
async def noted(ctx: RunContext[AgentDeps], how: str) -> str:
    """Say what was done while it is done."""
    await annotate_tool_effect(ctx.deps.step_store, ctx, idempotency_key="key", effect_summary="sent it")
    return how


@registry.tool
async def ask(ctx: RunContext[AgentDeps], how: str) -> str:
    """Have another agent act, which records as this one does."""
    return await _delegate(SettledStepPersistence(store=ctx.deps.step_store), how)


@registry.tool
async def ask_stock(ctx: RunContext[AgentDeps], how: str) -> str:
    """Have another agent act, which records by the harness alone."""
    return await _delegate(StepPersistence(store=ctx.deps.step_store), how)


async def _delegate(steps: Any, how: str) -> str:
    tool = "hurry" if how == "timeout" else "act"
    delegate = Agent(ScriptedModel([[ToolCall(tool, {"how": how}, id="inner")], ["done"]]), capabilities=[steps])
    delegate.tool_plain(act)
    delegate.tool_plain(name="hurry", timeout=0.2)(act)
    return str((await delegate.run("go")).output)


def reset() -> None:
    """Open all gates and forget what happened."""
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    ACTED.clear()
    model.requests.clear()
