"""The second agent: it plants trees, which somebody has to approve."""

from functools import cache
from typing import Any

from django.conf import settings

from django_pydantic_agent import ToolRegistry

registry = ToolRegistry("forester", instructions="You plant trees. Answer in one sentence. Use the tool.")


@registry.tool(requires_approval=True)
def plant(tree: str, number: int) -> str:
    """Plant a number of trees of one kind."""
    return f"{number} times {tree}: planted"


def model_for_request(request: Any) -> Any:
    """Return the model of a run: the one AGENT_MODEL names, else the scripted one."""
    return settings.AGENT_MODEL or _scripted_model()


@cache
def _scripted_model() -> Any:
    from example_project.notebook.script import forester

    return forester
