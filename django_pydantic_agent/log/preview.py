"""A conversation in one line."""

from collections.abc import Sequence

from django.utils.text import Truncator
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from django_pydantic_agent.log.frames import storable

PREVIEW_CHARACTERS = 120


def preview(messages: Sequence[ModelMessage]) -> str:
    """Return the first user message on one line, cut; empty where it has no text."""
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                content = [part.content] if isinstance(part.content, str) else part.content
                text = " ".join(item for item in content if isinstance(item, str))
                line = storable(" ".join(text[: PREVIEW_CHARACTERS * 10].split()))
                return Truncator(line).chars(PREVIEW_CHARACTERS)
    return ""
