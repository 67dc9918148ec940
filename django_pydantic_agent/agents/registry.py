"""Collect the tools of an agent without importing pydantic_ai before the agent is needed."""

import inspect
import re
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from pydantic_ai import Agent, Tool

F = TypeVar("F", bound=Callable[..., Any])

IDEMPOTENT = "idempotent"
"""The key of a tool's metadata that says whether it may safely run twice."""

_OPTIONS = "__agent_tool_options__"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """What a tool says about itself beyond its signature.

    `name` defaults to the function's name, `description` to its docstring. `retries` counts how often the model may
    correct a call, `timeout` is in seconds. An `idempotent` tool may run again when nobody knows whether it has run; a
    `sequential` one never runs beside another. Raises `TypeError` or `ValueError` for other values.
    """

    name: str | None = None
    description: str | None = None
    requires_approval: bool = False
    idempotent: bool = False
    sequential: bool = False
    retries: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name in ("requires_approval", "idempotent", "sequential"):
            if not isinstance(flag := getattr(self, name), bool):
                raise TypeError(f"{name} of a tool must be True or False, not {flag!r}")
        retries, timeout = self.retries, self.timeout
        if retries is not None and not (_is_number(retries, int) and retries >= 0):
            raise ValueError(f"retries of a tool must be a whole number, 0 or more, or None, not {retries!r}")
        if timeout is not None and not (_is_number(timeout, int | float) and 0 < timeout < float("inf")):
            raise ValueError(f"timeout of a tool must be a number of seconds above 0 or None, not {timeout!r}")


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(function: None = None, /, **options: Any) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Give a function its options for `ToolRegistry.add`; takes the fields of `ToolOptions`, or nothing at all."""
    if function is not None and not callable(function):
        raise TypeError(f"@tool takes its options by keyword, not {function!r}")

    def mark(function: F) -> F:
        setattr(function, _OPTIONS, ToolOptions(**options))
        return function

    return mark if function is None else mark(function)


class ToolRegistry:
    """The tools of one agent and what the agent is made of.

    `model` and `instructions` are what `pydantic_ai.Agent` takes; left out, the settings and the mount decide. A tool
    whose first parameter is annotated with `RunContext` gets the run's context, whose `deps` are an `AgentDeps`; that
    name may be imported under `TYPE_CHECKING` only.
    """

    def __init__(
        self,
        name: str = "agent",
        *,
        model: Any = None,
        instructions: Any = None,
        model_settings: Any = None,
        output_type: Any = str,
        retries: int | None = None,
        toolsets: Sequence[Any] = (),
        capabilities: Sequence[Any] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.instructions = instructions
        self.model_settings = model_settings
        self.output_type = output_type
        self.retries = retries
        self.toolsets = tuple(toolsets)
        self.capabilities = tuple(capabilities)
        self._tools: dict[str, tuple[Callable[..., Any], ToolOptions]] = {}
        self._agent: Agent[Any, Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ToolRegistry {self.name!r}: {', '.join(self._tools) or 'no tools'}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def options(self) -> Mapping[str, ToolOptions]:
        """Return the options of each tool by its name."""
        return MappingProxyType({name: options for name, (_, options) in self._tools.items()})

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Register the decorated function; takes the fields of `ToolOptions`, or nothing at all."""

        def register(function: F) -> F:
            return self.add(function, **options)

        return register if function is None else register(function)

    def add(self, function: F, **options: Any) -> F:
        """Register `function` and return it.

        Options given here win over those of its `@tool`. Raises `TypeError` for what is no function or an unknown
        option, `ValueError` for a name that models refuse or that is taken.
        """
        if not inspect.isroutine(function):
            raise TypeError(f"a tool must be a function or a method, not {function!r}")
        marked: ToolOptions = getattr(function, _OPTIONS, ToolOptions())
        merged = ToolOptions(**{field: getattr(marked, field) for field in ToolOptions.__dataclass_fields__} | options)
        name = merged.name or function.__name__
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a tool: pass name= with 1 to 64 letters, digits, '_' or '-'")
        with self._lock:
            if name in self._tools:
                raise ValueError(f"registry {self.name!r} already has a tool {name!r}")
            self._tools[name] = (function, merged)
            self._agent = None
        return function

    def agent(self) -> "Agent[Any, Any]":
        """Return the agent, built at the first call and again after a tool was added."""
        with self._lock:
            if self._agent is None:
                self._agent = self._build()
            return self._agent

    def _build(self) -> "Agent[Any, Any]":
        from pydantic_ai import Agent

        from django_pydantic_agent.agents.deps import AgentDeps

        return Agent(
            self.model,
            name=self.name,
            deps_type=AgentDeps,
            output_type=self.output_type,
            instructions=self.instructions,
            model_settings=self.model_settings,
            retries=self.retries,
            tools=[_as_tool(name, function, options) for name, (function, options) in self._tools.items()],
            toolsets=list(self.toolsets),
            capabilities=list(self.capabilities),
            defer_model_check=True,
        )


def _as_tool(name: str, function: Callable[..., Any], options: ToolOptions) -> "Tool[Any]":
    from pydantic_ai import Tool

    _resolve_annotations(function)
    return Tool(
        function,
        name=name,
        description=options.description,
        max_retries=options.retries,
        requires_approval=options.requires_approval,
        sequential=options.sequential,
        timeout=options.timeout,
        metadata={IDEMPOTENT: options.idempotent},
    )


def _resolve_annotations(function: Callable[..., Any]) -> None:
    """Replace written annotations that need `RunContext` or `AgentDeps` by what they mean."""
    from pydantic_ai import RunContext

    from django_pydantic_agent.agents.deps import AgentDeps

    try:
        typing.get_type_hints(function)
    except NameError:
        known = {"RunContext": RunContext, "AgentDeps": AgentDeps}
        plain = getattr(function, "__func__", function)
        plain.__annotations__ = typing.get_type_hints(function, localns=known, include_extras=True)
