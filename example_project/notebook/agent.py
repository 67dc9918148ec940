"""The agent: three tools, and a model that needs no network unless AGENT_MODEL names one."""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from django_pydantic_agent import ToolRegistry
from example_project.notebook.models import Note

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from django_pydantic_agent import AgentDeps

registry = ToolRegistry(
    "notebook",
    instructions="You help with a notebook about trees. Answer in one or two sentences. Use the tools.",
)

HEIGHTS = {"alder": 25, "beech": 35, "birch": 22, "oak": 30, "pine": 40}


@registry.tool(idempotent=True)
def look_up(tree: str) -> str:
    """Return how high a kind of tree grows."""
    height = HEIGHTS.get(tree.lower())
    return f"{tree}: up to {height} metres" if height else f"{tree}: not in the book"


@registry.tool(idempotent=True)
async def measure(tree: str) -> str:
    """Measure a tree outside, which takes a while."""
    await asyncio.sleep(settings.SLOW_SECONDS)
    return f"{tree}: {HEIGHTS.get(tree.lower(), 10) - 3} metres"


@registry.tool
def write_note(ctx: "RunContext[AgentDeps]", text: str) -> str:
    """Write a note into the user's notebook."""
    note = Note.objects.create(user=ctx.deps.user, text=text[:200])
    return f"note {note.pk}: {note.text}"


def model_for_request(request: Any) -> Any:
    """Return the model of a run: the one AGENT_MODEL names, else the scripted one."""
    return settings.AGENT_MODEL or _scripted_model()


@cache
def _scripted_model() -> Any:
    from example_project.notebook.script import model

    return model
