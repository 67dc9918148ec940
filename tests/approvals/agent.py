"""The agent behind the mounts of these tests; its tools leave a trace in `DONE`."""

from collections.abc import Sequence
from typing import Any

from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.testing.models import Gates, ScriptedModel, Step, ToolCall, Turn

BIG = 2512292042121000001

DONE: list[Any] = []
GATES = Gates()


def script(prompt: str) -> Sequence[Turn]:
    """Ask for the calls that the prompt names, one response for each `;`, then say "done"; `hold` is a gate."""
    if prompt == "hello":
        return [["hi"]]
    return [*([_call(name.strip()) for name in turn.split(",")] for turn in prompt.split(";")), ["done"]]


def _call(words: str) -> Step:
    tool, *rest = words.split()
    match tool:
        case "hold":
            return GATES[rest[0]]
        case "erase":
            return ToolCall("erase", {"order_id": int(rest[0]) if rest else BIG}, id="".join(rest[1:]) or None)
        case "rate":
            return ToolCall("rate", {"values": [1, 2.5], "note": "n"})
    return ToolCall(tool)


model = ScriptedModel(script)
registry = ToolRegistry("tests", model=model)


@registry.tool(requires_approval=True)
def erase(order_id: int) -> str:
    """Erase an order."""
    DONE.append(order_id)
    return f"erased {order_id}"


@registry.tool(requires_approval=True)
def rate(values: list[float], note: str) -> str:
    """Rate something."""
    DONE.append((values, note))
    return "rated"


@registry.tool
def look() -> str:
    """Look around."""
    DONE.append("look")
    return "seen"


@registry.tool
async def look_async() -> str:
    """Look around without a thread."""
    DONE.append("look_async")
    return "seen"
