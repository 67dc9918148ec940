"""A conversation in one line: what lists show of it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.utils.text import Truncator

from django_pydantic_agent.log.frames import JsonObject, storable

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

PREVIEW_CHARACTERS = 120


def preview(messages: Iterable[JsonObject]) -> str | None:
    """Return the first user message on one line, cut; None where there is none, empty where it has no text."""
    for message in messages:
        if message["role"] == "user":
            content = message["content"]
            return _preview([content] if isinstance(content, str) else [part.get("text", "") for part in content])
    return None


def history_preview(messages: "Iterable[ModelMessage]") -> str:
    """Return the first user message of a model's history on one line, cut; empty where it has no text."""
    from pydantic_ai.messages import UserPromptPart

    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                return _preview([item for item in content if isinstance(item, str)])
    return ""


def one_line(text: str, characters: int) -> str:
    """Return a text on one line, storable, of at most so many characters."""
    return Truncator(" ".join(storable(text[: characters * 10]).split())).chars(characters)


def _preview(texts: Iterable[str]) -> str:
    return one_line(" ".join(text[: PREVIEW_CHARACTERS * 10] for text in texts), PREVIEW_CHARACTERS)
