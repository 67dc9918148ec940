"""What a post asks of the thread it names: one decision, made from the two alone.

Clients post their whole transcript each time, or what they have of it. The thread is what counts: a post adds to it,
and replaces something only where the client has shown that it means to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.utils.translation import gettext_noop as _

from django_pydantic_agent.threads.posture import (
    Posture,
    Standing,
    ThreadOutline,
    TurnState,
    after_last,
    outline,
    without_copies,
)

if TYPE_CHECKING:
    from ag_ui.core import Message, RunAgentInput, ToolMessage, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPolicy:
    """Those keywords of the mount that have a say, under their own names."""

    on_stale_client: Literal["merge", "reject"] = "merge"
    client_history: Literal["ignore", "import"] = "ignore"
    on_concurrent_run: Literal["enqueue", "reject", "interrupt", "rollback", "attach"] = "enqueue"


DEFAULT_POLICY = ThreadPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Begin a turn, or answer what a turn waits for.

    `messages` are accepted in this order, `results` are those of open frontend calls, `resume` says that the post
    decides interrupts. Messages without `resume` give up whatever else is open. The stored messages from the place
    `supersede_from` on are replaced, and what is open in them is given up. `history` is imported before all else.
    """

    client: Standing
    messages: "tuple[UserMessage, ...]" = ()
    results: "tuple[ToolMessage, ...]" = ()
    resume: bool = False
    supersede_from: int | None = None
    history: "tuple[Message, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerate:
    """Answer the user message before the place `supersede_from` anew; what stands from there on is replaced."""

    client: Standing
    supersede_from: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    """Continue the turn whose latest run is `run`, and was cut, from its last boundary."""

    client: Standing
    run: int


@dataclass(frozen=True, slots=True)
class Attach:
    """Begin nothing and show `run`."""

    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Begin nothing and answer with an HTTP status, a code, a sentence, and the ids that the post lacks."""

    status: int
    code: str
    message: str
    missing: tuple[str, ...] = ()


Decision = Start | Regenerate | GoOn | Attach | Refuse


def reconcile(
    posted: "RunAgentInput",
    thread: ThreadOutline | None,
    *,
    if_match: int | None = None,
    policy: ThreadPolicy = DEFAULT_POLICY,
) -> Decision:
    """Return what a post asks of a thread; None is one that does not exist.

    `if_match` is the revision that an If-Match header names. Takes time in proportion to the post and the thread.
    """
    if if_match is not None and (thread is None or if_match != thread.revision):
        return _OTHER_REVISION
    if thread is None:
        return _open(posted, policy)
    decision = _decide(Posture(posted, thread), policy)
    if policy.on_stale_client == "reject" and isinstance(decision, Start | Regenerate | GoOn):
        return _stale(decision.client.missing) if decision.client.missing else decision
    return decision


def overlay_state(stored: Any, posted: Any, *, knows_newest: bool) -> Any:
    """Return the state that a run begins with: what is stored, and over it what the client posted.

    A client that does not know the newest message only adds keys. An empty posted state wipes nothing.
    """
    if _is_empty(posted):
        return stored
    if _is_empty(stored):
        return posted
    if isinstance(stored, Mapping) and isinstance(posted, Mapping):
        return {**stored, **posted} if knows_newest else {**posted, **stored}
    return posted if knows_newest else stored


def _decide(post: Posture, policy: ThreadPolicy) -> Decision:
    active = post.thread.active
    if post.resumes:
        return _start(post, post.added)
    if post.names_revision and (rewritten := _rewrite(post)):
        return rewritten
    if post.added:
        return _start(post, post.added)
    if post.results:
        return _answer(post)
    if not post.users:
        return _NOTHING_TO_RUN if active is None else Attach(active)
    if post.changed:
        return _edit(post)
    if policy.on_concurrent_run == "attach" and active is not None:
        return Attach(active)
    return _repeat(post)


def _open(posted: "RunAgentInput", policy: ThreadPolicy) -> Decision:
    """Begin a thread with what is new in the post. What comes before is imported or dropped."""
    messages = without_copies(posted.messages)
    answered = after_last(messages, "assistant", "tool")
    new = [message for message in messages[answered:] if message.role == "user"]
    imports = policy.client_history == "import"
    history = [message for message in messages[:answered] if message.role not in ("system", "developer")]
    if not (new or posted.resume or (imports and history and history[-1].role == "tool")):
        return _NOTHING_TO_RUN
    return Start(
        client=Standing(catch_up=not imports and outline(messages) != outline(new)),
        messages=tuple(new),
        resume=bool(posted.resume),
        history=tuple(history) if imports else (),
    )


def _rewrite(post: Posture) -> Decision | None:
    """Make of the thread what a client that knows its revision has made of its copy, if it has made anything."""
    kept = post.prefix
    if kept is None:
        return None
    if post.changed:
        return _start(post, post.edits, keep=post.changed[0])
    if kept == len(post.thread.messages):
        return None
    if post.added:
        return _start(post, post.added, keep=kept)
    return _regenerate(post, kept) if post.after_question(kept) else None


def _answer(post: Posture) -> Decision:
    """Take the results of frontend tools where they are all that the thread waits for."""
    given = {result.tool_call_id for result in post.results}
    missing = (post.thread.open_calls - given) | post.thread.open_interrupts
    if not missing:
        return _start(post, ())
    return Refuse(
        status=422,
        code="answers_missing",
        message=_("the thread waits for more answers than the post gives"),
        missing=tuple(sorted(missing)),
    )


def _edit(post: Posture) -> Decision:
    """Replace the newest turn by what the client has made of it."""
    first = post.changed[0]
    if post.is_newest(first) and post.holds_questions_from(first):
        return _start(post, post.edits, keep=first)
    return _stale(post.missing())


def _repeat(post: Posture) -> Decision:
    """Decide on a post that holds nothing unseen, by the turn of its last user message."""
    place = post.place_of(post.users[-1])
    turn = None if place is None else post.turn_at(place)
    if place is None or turn is None:
        return _stale(post.missing())
    if turn.state in (TurnState.LIVE, TurnState.WAITING):
        return Attach(turn.run)
    if not post.is_newest(place) or any(post.is_newest(outdated) for outdated in post.outdated):
        return _stale(post.missing())
    if turn.state is TurnState.CUT:
        keep, since = len(post.thread.messages), post.after_question()
        return GoOn(client=post.standing(keep, since=since), run=turn.run)
    return Attach(turn.run) if post.ends_in_unasked_result else _regenerate(post)


def _start(post: Posture, messages: Sequence["UserMessage"], *, keep: int | None = None) -> Start:
    """Take `messages`, after the first `keep` of the thread or, without it, after all of them."""
    end = len(post.thread.messages) if keep is None else keep
    return Start(
        client=post.standing(end, accepted=messages),
        messages=tuple(messages),
        results=tuple(post.results) if keep is None else (),
        resume=post.resumes,
        supersede_from=keep,
    )


def _regenerate(post: Posture, end: int | None = None) -> Regenerate:
    """Answer the last user message before `end` anew."""
    keep = post.after_question(end)
    return Regenerate(client=post.standing(keep), supersede_from=keep)


def _stale(missing: tuple[str, ...]) -> Refuse:
    return Refuse(
        status=409, code="stale_thread", message=_("the thread has gone on without this client"), missing=missing
    )


_NOTHING_TO_RUN = Refuse(status=422, code="nothing_to_run", message=_("the post holds nothing that could be answered"))
_OTHER_REVISION = Refuse(
    status=412, code="precondition_failed", message=_("the thread is not at the revision that If-Match names")
)


def _is_empty(state: Any) -> bool:
    return state is None or state in ({}, [], "")
