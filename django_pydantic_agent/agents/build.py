"""Turn what a project mounts into an agent, and say what its tools are."""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from django_pydantic_agent.agents.registry import IDEMPOTENT, ToolRegistry
from django_pydantic_agent.exceptions import InvalidInput

if TYPE_CHECKING:
    from pydantic_ai import Tool
    from pydantic_ai.agent import AbstractAgent

    AgentSource: TypeAlias = ToolRegistry | AbstractAgent[Any, Any] | Callable[[], Any]


class CatalogEntry(TypedDict):
    """One tool as the `tools/` route shows it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    requires_approval: bool
    idempotent: bool


def check_source(source: object) -> None:
    """Raise `TypeError` where `source` cannot lead to an agent; looks at it without importing pydantic_ai."""
    if isinstance(source, ToolRegistry):
        return
    if isinstance(source, type) or not (callable(source) or hasattr(source, "toolsets")):
        raise TypeError(
            f"agent must be a ToolRegistry, a pydantic_ai.Agent or a callable returning one, not {source!r}"
        )
    if inspect.iscoroutinefunction(source):
        raise TypeError(f"agent must be a plain callable, not the coroutine function {source.__qualname__}")


def option_fault(name: str, value: object) -> str | None:
    """Return what the value of an agent's option has to be, None where it is; looks without importing pydantic_ai."""
    fits, wanted = {
        "model": (isinstance(value, str) or hasattr(value, "model_name"), "a pydantic_ai model, its name"),
        "instructions": (
            not isinstance(value, bool | int | float | bytes | dict),
            "a text, a function, a list of these",
        ),
        "model_settings": (isinstance(value, dict) or callable(value), "a dictionary, a function"),
        "usage_limits": (hasattr(value, "request_limit"), "a pydantic_ai.UsageLimits"),
    }[name]
    return None if value is None or fits else f"{wanted} or None"


def build_agent(source: "AgentSource") -> "AbstractAgent[Any, Any]":
    """Return the agent that `source` stands for.

    A registry builds its agent once. A callable is called each time, so it may be cached with `functools.cache`.
    Raises `TypeError` for anything else.
    """
    from pydantic_ai.agent import AbstractAgent

    if isinstance(source, ToolRegistry):
        return source.agent()
    if isinstance(source, AbstractAgent):
        return source
    check_source(source)
    made = source()
    if isinstance(made, ToolRegistry):
        return made.agent()
    if isinstance(made, AbstractAgent):
        return made
    raise TypeError(f"{source!r} must return a ToolRegistry or a pydantic_ai.Agent, not {made!r}")


def catalog(source: "AgentSource") -> list[CatalogEntry]:
    """Return the function tools of the agent in the order of their registration.

    Tools that a toolset only knows during a run, such as those of an MCP server, are not among them.
    """
    return [
        CatalogEntry(
            name=tool.name,
            description=tool.description or "",
            parameters=dict(tool.function_schema.json_schema),
            requires_approval=tool.requires_approval,
            idempotent=_idempotent(tool),
        )
        for tool in _function_tools(build_agent(source).toolsets)
    ]


def check_frontend_tools(names: Collection[str], source: "AgentSource", *, toolsets: Sequence[Any] = ()) -> None:
    """Raise `InvalidInput` where the agent, or one of `toolsets` beside it, has a function tool of one of `names`."""
    own = {tool.name for tool in _function_tools([*build_agent(source).toolsets, *toolsets])}
    for name in names:
        if name in own:
            raise InvalidInput(f"the tool {name[:100]!r} is the server's; a tool of the client needs another name")


def takes_arguments(
    name: str, arguments: dict[str, Any], source: "AgentSource", *, toolsets: Sequence[Any] = ()
) -> bool:
    """Return whether the agent, or one of `toolsets` beside it, has a function tool `name` that takes `arguments`."""
    from pydantic_core import ValidationError

    for tool in _function_tools([*build_agent(source).toolsets, *toolsets]):
        if tool.name == name:
            try:
                tool.function_schema.validator.validate_python(arguments)
            except ValidationError:
                return False
            return True
    return False


def is_idempotent(source: "AgentSource", name: str) -> bool:
    """Return whether the tool `name` was declared safe to run twice; False for a tool that nobody declared."""
    if isinstance(source, ToolRegistry) and name in source:
        return source.options[name].idempotent
    return any(tool.name == name and _idempotent(tool) for tool in _function_tools(build_agent(source).toolsets))


def _function_tools(toolsets: Sequence[Any]) -> Iterator["Tool[Any]"]:
    from pydantic_ai import FunctionToolset

    for toolset in toolsets:
        if isinstance(toolset, FunctionToolset):
            yield from toolset.tools.values()


def _idempotent(tool: "Tool[Any]") -> bool:
    return bool((tool.metadata or {}).get(IDEMPOTENT, False))
