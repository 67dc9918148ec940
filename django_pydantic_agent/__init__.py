"""Durable agent runs for Django: agents, the event log and the ledger, without HTTP."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_pydantic_agent.agents.deps import AgentDeps
    from django_pydantic_agent.agents.registry import ToolRegistry, tool

__all__ = ["AgentDeps", "ToolRegistry", "tool"]
__version__ = "1.0.0a1"

_HOMES = {
    "AgentDeps": "django_pydantic_agent.agents.deps",
    "ToolRegistry": "django_pydantic_agent.agents.registry",
    "tool": "django_pydantic_agent.agents.registry",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
