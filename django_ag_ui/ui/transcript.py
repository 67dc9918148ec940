"""A transcript as a page shows it before, or without, the modules that draw it from events."""

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import pgettext_lazy

if TYPE_CHECKING:
    from django_pydantic_agent.log.frames import JsonObject

SPEAKERS = {
    "user": pgettext_lazy("who speaks", "You"),
    "assistant": pgettext_lazy("who speaks", "Agent"),
    "reasoning": pgettext_lazy("who speaks", "Reasoning"),
    "activity": pgettext_lazy("who speaks", "Activity"),
    "tool": pgettext_lazy("who speaks", "Tool"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call with its arguments as they were written, and its result, None where there is none yet.

    `is_unknown` says that nobody knows whether it has acted.
    """

    name: str
    arguments: str
    is_unknown: bool
    result: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message of somebody who speaks, as text, with the tool calls in it; `kind` is that of an activity."""

    id: str
    role: str
    text: str
    kind: str
    calls: Sequence[Call] = ()

    @property
    def speaker(self) -> str:
        return str(SPEAKERS[self.role])


def transcript(messages: Iterable["JsonObject"], *, unknown: Container[str] = ()) -> list[Entry]:
    """Return the messages that somebody speaks; results stand with the calls that they answer.

    `unknown` are the ids of the calls of which nobody knows whether they have acted.
    """
    shown = [message for message in messages if message["role"] in SPEAKERS]
    results = {message["toolCallId"]: message for message in shown if message["role"] == "tool"}
    called = {call["id"] for message in shown for call in message.get("toolCalls") or ()}
    return [
        Entry(
            id=message["id"],
            role=message["role"],
            text=_text(message.get("content")),
            kind=message.get("activityType", ""),
            calls=[
                _call(call, results.get(call["id"], {}), is_unknown=call["id"] in unknown)
                for call in message.get("toolCalls") or ()
            ],
        )
        for message in shown
        if message["role"] != "tool" or message["toolCallId"] not in called
    ]


def _call(call: "JsonObject", result: "JsonObject", *, is_unknown: bool) -> Call:
    return Call(
        name=call["function"]["name"],
        arguments=call["function"]["arguments"],
        is_unknown=is_unknown,
        result=_text(result["content"]) if "content" in result else None,
        error=result.get("error"),
    )


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, dict):
        return json.dumps(content, indent=2, ensure_ascii=False)
    return "\n".join(part.get("text", f"[{_kind(part)}]") for part in content)


def _kind(part: "JsonObject") -> str:
    """Return what kind of thing a part is that is no text."""
    return str(part.get("source", {}).get("mimeType", part["type"]))
