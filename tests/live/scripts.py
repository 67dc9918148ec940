"""What a test has the agent do: the user's message is the script, in JSON."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

Step: TypeAlias = str | dict[str, Any]

RECITE: Step = {"do": "recite"}
"""Say, as JSON, what the history holds: a pair of kind and content for each part."""


def think(text: str) -> Step:
    return {"do": "think", "text": text}


def spell(text: str) -> Step:
    """Say `text` in deltas of one character."""
    return {"do": "spell", "text": text}


def drone(characters: int) -> Step:
    """Say so many characters in one delta."""
    return {"do": "drone", "characters": characters}


def call(tool: str, *, call_id: str | None = None, **args: Any) -> Step:
    return {"do": "call", "tool": tool, "id": call_id, "args": args}


def gate(name: str) -> Step:
    """Wait at a gate of the test."""
    return {"do": "gate", "name": name}


def pause(seconds: float) -> Step:
    return {"do": "pause", "seconds": seconds}


def fail(text: str) -> Step:
    """Raise an exception with this text."""
    return {"do": "fail", "text": text}


def script(*turns: Sequence[Step]) -> str:
    """Return the user message that has the agent answer with these turns."""
    return json.dumps(turns)
