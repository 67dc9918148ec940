"""The agent behind the mounts of these tests, and the hooks that a test may change."""

from collections.abc import Sequence
from typing import Any

from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.testing.models import Failure, Gates, ScriptedModel, ToolCall, Turn

SECRET = "secret-marker"

GATES = Gates()


def script(prompt: str) -> Sequence[Turn]:
    """Answer "wait <name>" behind a gate, "add" and "ask" with a tool, "fail" not at all, all else with an echo."""
    verb, _, rest = prompt.partition(" ")
    match verb:
        case "wait":
            return [["begun ", GATES[rest], "ended"]]
        case "add":
            return [[ToolCall("add", {"a": 1, "b": 2})], ["three"]]
        case "ask":
            return [[ToolCall("ask", id="call-1")]]
        case "erase":
            return [[ToolCall("erase", {"name": rest})], ["erased"]]
        case "hold":
            return [["adding ", ToolCall("add", {"a": 1, "b": 2}, chunk=4), GATES[rest]], ["three"]]
        case "pick":
            return [[ToolCall("pick", {"of": "ab"}, id="call"), ToolCall("pick", {"of": "cd"}, id="other")], ["picked"]]
        case "fail":
            return [[Failure(RuntimeError(SECRET))]]
        case _:
            return [[f"echo {prompt}"]]


model = ScriptedModel(script)
registry = ToolRegistry("tests", model=model)


@registry.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@registry.tool(idempotent=True, requires_approval=True)
def erase(name: str) -> str:
    """Erase a file."""
    return name


class Hook:
    """A hook that calls what the test put into `does`."""

    does: Any = None

    def __call__(self, request: Any, *more: Any) -> Any:
        return self.does(request, *more)
