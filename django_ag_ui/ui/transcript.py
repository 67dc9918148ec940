"""A transcript as a page shows it before, or without, the modules that draw it from events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import pgettext_lazy

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

SPEAKERS = {
    "user": pgettext_lazy("who speaks", "You"),
    "assistant": pgettext_lazy("who speaks", "Agent"),
    "reasoning": pgettext_lazy("who speaks", "Reasoning"),
    "tool": pgettext_lazy("who speaks", "Tool"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call with its arguments as they were written, and its result, None where there is none yet."""

    name: str
    arguments: str
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message of somebody who speaks, as text, with the tool calls in it."""

    id: str
    role: str
    text: str
    calls: Sequence[Call] = ()

    @property
    def speaker(self) -> str:
        return str(SPEAKERS[self.role])


def transcript(messages: Iterable["JsonObject"]) -> list[Entry]:
    """Return the messages that somebody speaks; results stand with the calls that they answer."""
    shown = [message for message in messages if message["role"] in SPEAKERS]
    results = {message["toolCallId"]: message for message in shown if message["role"] == "tool"}
    called = {call["id"] for message in shown for call in message.get("toolCalls") or ()}
    return [
        Entry(
            id=message["id"],
            role=message["role"],
            text=_text(message.get("content")),
            calls=[_call(call, results.get(call["id"], {})) for call in message.get("toolCalls") or ()],
        )
        for message in shown
        if message["role"] != "tool" or message["toolCallId"] not in called
    ]


def _call(call: "JsonObject", result: "JsonObject") -> Call:
    return Call(
        name=call["function"]["name"],
        arguments=call["function"]["arguments"],
        result=_text(result["content"]) if "content" in result else None,
        error=result.get("error"),
    )


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] if part.get("type") == "text" else f"[{part.get('type')}]" for part in content)
