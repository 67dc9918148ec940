"""Posts and threads in shorthand: "u1 a1 u2" is a user message, its answer, and the next user message.

The first letter is the role, the rest a number; the result `t1` is that of call `c1`. A star marks changed content, and
a bar in a thread parts its turns.
"""

from typing import Any

from ag_ui.core import RunAgentInput

from django_pydantic_agent.threads.posture import KnownMessage, ThreadOutline, Turn, TurnState, message_digest

ROLES = {"u": "user", "a": "assistant", "t": "tool", "r": "reasoning", "s": "system", "d": "developer", "v": "activity"}


def message(short: str) -> dict[str, Any]:
    id_ = short.rstrip("*")
    content: Any = {"of": id_} if id_[0] == "v" else f"content of {short}"
    fields = {"id": id_, "role": ROLES[id_[0]], "content": content}
    if id_[0] == "t":
        fields["toolCallId"] = f"c{id_[1:]}"
    if id_[0] == "v":
        fields["activityType"] = "progress"
    return fields


def post(
    shorts: str = "", *, base: Any = None, resume: bool = False, messages: list[dict[str, Any]] | None = None
) -> RunAgentInput:
    """Return a post of the messages; `base` is its baseRevision, `resume` whether it decides an interrupt."""
    return RunAgentInput.model_validate(
        {
            "threadId": "thread",
            "runId": "run",
            "messages": [message(short) for short in shorts.split()] if messages is None else messages,
            "forwardedProps": {} if base is None else {"baseRevision": base},
            "resume": [{"interruptId": "i1", "status": "resolved"}] if resume else None,
        }
    )


def thread(
    shorts: str = "",
    *states: TurnState,
    imported: str = "",
    superseded: str = "",
    former: str = "",
    calls: str = "",
    interrupts: str = "",
) -> ThreadOutline:
    """Return a thread at revision 7; the run of its first turn is 1, and turns without a state are answered.

    `former` are versions of its messages that edits have replaced.
    """
    said = [(short, number) for number, turn in enumerate(shorts.split("|")) for short in turn.split()]
    messages = [
        KnownMessage(
            id=short,
            role=ROLES[short[0]],
            turn=number,
            digest=digest_of(short),
            former=frozenset(digest_of(old) for old in former.split() if old.rstrip("*") == short),
        )
        for short, number in [*((short, None) for short in imported.split()), *said]
    ]
    count = len({number for _, number in said})
    turns = [
        Turn(run=number + 1, state=states[number] if number < len(states) else TurnState.ANSWERED)
        for number in range(count)
    ]
    return ThreadOutline(
        revision=7,
        messages=messages,
        turns=turns,
        superseded=frozenset(superseded.split()),
        active=next((turn.run for turn in turns if turn.state is TurnState.LIVE), None),
        open_calls=frozenset(calls.split()),
        open_interrupts=frozenset(interrupts.split()),
    )


def digest_of(short: str) -> str:
    return message_digest(post(short).messages[0]) if short.startswith("u") else ""


def ids(messages: Any) -> str:
    return " ".join(message.id for message in messages)
