"""The agent behind the mounts of these tests: it plays the script in the user's message, and its tools leave traces."""

import json
import random
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from ag_ui.core import StateDeltaEvent, StateSnapshotEvent
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from pydantic_ai import RunContext, ToolReturn
from pydantic_ai.messages import ModelMessage

from django_pydantic_agent import AgentDeps, ToolRegistry
from django_pydantic_agent.testing.models import (
    Failure,
    Gate,
    Pause,
    Reasoning,
    ScriptedModel,
    Step,
    Text,
    ToolCall,
    Turn,
)
from example_project.notebook.models import Note
from tests.live.gates import count, pass_gate, pass_gate_blocking

MEGABYTE = 1_000_000


class RemoteGate(Gate):
    """A gate that the test holds in its own process."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def arrive(self) -> None:
        await pass_gate(self.name)


def play(prompt: str) -> Sequence[Turn]:
    return [_turn(steps) for steps in json.loads(prompt)]


def _turn(steps: list[Any]) -> Turn:
    return lambda messages: [_step(step, messages) for step in steps]


def _step(step: Any, messages: list[ModelMessage]) -> Step:
    match step:
        case str(text):
            return Text(text)
        case {"do": "recite"}:
            return Text(json.dumps([[part.part_kind, _content(part)] for m in messages for part in m.parts]))
        case {"do": "think", "text": text}:
            return Reasoning(text)
        case {"do": "spell", "text": text}:
            return Text(text, chunk=1)
        case {"do": "drone", "characters": number}:
            return Text("x" * number)
        case {"do": "call", "tool": tool, "id": call_id, "args": args}:
            return ToolCall(tool, args, id=call_id)
        case {"do": "gate", "name": name}:
            return RemoteGate(name)
        case {"do": "pause", "seconds": seconds}:
            return Pause(seconds)
        case {"do": "fail", "text": text}:
            return Failure(RuntimeError(text))
    raise ValueError(f"no step: {step!r}")


def _content(part: Any) -> str:
    content = part.tool_name if part.part_kind == "tool-call" else str(part.content)
    return content if len(content) < MEGABYTE else digest(content)


def digest(text: str) -> str:
    """Return what `scripts.RECITE` says for a text of megabytes."""
    return sha256(text.encode()).hexdigest()


registry = ToolRegistry("live", model=ScriptedModel(play))


@registry.tool
async def quick(word: str) -> str:
    return f"{word}!"


@registry.tool
def tally(ctx: RunContext[AgentDeps], run: str) -> ToolReturn:
    """Count the run, and show state: a whole one, and a change to it."""
    count(run)
    return ToolReturn(
        "tallied",
        metadata=[
            StateSnapshotEvent(snapshot={"run": run, "steps": []}),
            StateDeltaEvent(delta=[{"op": "add", "path": "/steps/0", "value": "tallied"}]),
        ],
    )


@registry.tool
async def hold(gate: str) -> str:
    """Wait at a gate of the test."""
    await pass_gate(gate)
    return f"passed {gate}"


@registry.tool
def hold_thread(gate: str) -> str:
    """Wait at a gate of the test, in a thread."""
    pass_gate_blocking(gate)
    return f"passed {gate}"


@registry.tool
def write(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user."""
    count(text)
    Note.objects.create(user=ctx.deps.user, text=text)
    return f"wrote {text}"


@registry.tool(requires_approval=True)
def sign(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user, if the user says so."""
    return write(ctx, text)


@registry.tool
async def write_in_thread(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user, from a coroutine."""
    count(text)
    await sync_to_async(Note.objects.create)(user=ctx.deps.user, text=text)
    return f"wrote {text}"


@registry.tool
def write_roundabout(ctx: RunContext[AgentDeps], text: str) -> str:
    """Write a note of the user, from a coroutine that a thread waits for."""
    return async_to_sync(write_in_thread)(ctx, text)


@registry.tool
def who(ctx: RunContext[AgentDeps]) -> str:
    """Tell what the database has about the user."""
    user = ctx.deps.user
    return f"{user.username} wrote {user.notes.count()} and has {user.groups.count()} groups"


@registry.tool
async def who_is_loaded(ctx: RunContext[AgentDeps]) -> str:
    """Tell what is known of the user without asking the database."""
    assert type(ctx.deps.user) is User
    return f"{ctx.deps.user.username}, {ctx.deps.user.email}"


@registry.tool
def boom(text: str) -> str:
    """Raise an exception with this text."""
    raise RuntimeError(text)


class Unprintable:
    """An object that has neither a JSON form nor a text."""

    def __repr__(self) -> str:
        raise TypeError("no text")


ODD: dict[str, Callable[[], Any]] = {
    "nul": lambda: "before\0after",
    "lone surrogate": lambda: "before\ud800after",
    "object": lambda: ToolReturn("kept", metadata={"odd": object()}),
    "object without a text": lambda: ToolReturn("kept", metadata={"odd": Unprintable()}),
    "30 MB": lambda: random.Random(1).randbytes(15 * MEGABYTE).hex(),
}


@registry.tool
def odd(kind: str) -> Any:
    """Return something that not every store takes."""
    return ODD[kind]()


@registry.tool
def odd_boom(kind: str) -> str:
    """Raise an exception whose text not every store takes."""
    raise RuntimeError(ODD[kind]())


@registry.tool
def formless(text: str) -> Any:
    """Return what has no JSON form, on which pydantic-ai itself fails."""
    return {"text": text, "object": object()}
