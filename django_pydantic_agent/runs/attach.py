"""What a viewer without a cursor is told of a run, so that it can go on with what comes next."""

from contextlib import suppress
from dataclasses import replace

from pydantic_core import from_json, to_json

from django_pydantic_agent.exceptions import LogPruned, RunNotFound, ThreadNotFound
from django_pydantic_agent.log.frames import is_terminal
from django_pydantic_agent.log.preamble import (
    MESSAGES_SNAPSHOT,
    RUN_STARTED,
    STATE_SNAPSHOT,
    LogFold,
    Preamble,
    messages_told,
    opening_frames,
)
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore, ThreadSoFar
from django_pydantic_agent.stores.writes import KeptFold
from django_pydantic_agent.threads.lineage import messages_before
from django_pydantic_agent.threads.running import posted_state, state_before

FOLDED_EVENTS = 10_000
"""A log outside of threads that holds more events is folded once, when the run ends, and not for every viewer."""


def preamble(run: StoredRun, *, store: RunStore, conversation: ConversationStore | None) -> Preamble:
    """Return what stands for the events of a run so far; following it from there brings all others.

    It holds every event up to its seq, wherever a run is that ends or a log that is pruned meanwhile. Raises
    `RunNotFound` where nothing is left of the run. What the run asked and nobody can answer any more is left out.
    """
    told = _preamble(run, store=store, conversation=conversation)
    *before, last = told.frames
    return replace(told, frames=[*before, _without_closed(last, run, store)])


def _preamble(run: StoredRun, *, store: RunStore, conversation: ConversationStore | None) -> Preamble:
    kept = store.folded(run.key)
    so_far = _so_far(run, conversation)
    told = _kept_whole(kept) if so_far is None else _of_ended_turn(run, store, kept, so_far)
    if told is not None:
        return told
    fold = _folded(run, store, so_far)
    is_changed = fold.terminal is not None or fold.seq < kept.last_seq
    if is_changed and store.folded(run.key) != kept:
        return _preamble(run, store=store, conversation=conversation)
    if fold.seq < kept.last_seq:
        raise RunNotFound
    return fold.preamble()


def put_to_rest(run: StoredRun, *, store: RunStore, conversation: ConversationStore | None, last_seq: int) -> None:
    """Bring an ended run's log into its resting form, and keep the fold of a long one."""
    store.tidy(run.key)
    if conversation is None and last_seq > FOLDED_EVENTS:
        keep_fold(run, store=store, conversation=None)


def keep_fold(run: StoredRun, *, store: RunStore, conversation: ConversationStore | None) -> None:
    """Keep what an ended run's log adds up to beside it, after which no preamble needs the log.

    The messages of a thread stay where they are. Does nothing where the run is live.
    """
    frames = _preamble(run, store=store, conversation=conversation).frames
    if not is_terminal(frames[-1]):
        return
    if _so_far(run, conversation) is not None:
        frames = [frame for frame in frames if not frame.startswith(MESSAGES_SNAPSHOT)]
    store.keep_fold(run.key, frames)


def _without_closed(frame: bytes, run: StoredRun, store: RunStore) -> bytes:
    """Return a terminal frame with those interrupts only that are open; others as they are."""
    if not is_terminal(frame):
        return frame
    event = from_json(frame)
    asked = (event.get("outcome") or {}).get("interrupts", ())
    if not asked:
        return frame
    waiting = {interrupt.id for interrupt in store.interrupts(run.key) if interrupt.is_open}
    left = [interrupt for interrupt in asked if interrupt["id"] in waiting]
    if len(left) == len(asked):
        return frame
    outcome = {"type": "interrupt", "interrupts": left} if left else {"type": "cancelled"}
    return to_json({**event, "outcome": outcome})


def _so_far(run: StoredRun, conversation: ConversationStore | None) -> ThreadSoFar | None:
    """Return the run's part of its thread, None where it is in none."""
    try:
        return None if conversation is None else conversation.so_far(run=run.key)
    except ThreadNotFound:
        return None


def _kept_whole(kept: KeptFold) -> Preamble | None:
    """Return the preamble of a run outside of threads, if it is kept."""
    is_whole = messages_told(kept.frames) is not None
    return Preamble(list(kept.frames), kept.last_seq) if is_whole else None


def _of_ended_turn(run: StoredRun, store: RunStore, kept: KeptFold, so_far: ThreadSoFar) -> Preamble | None:
    """Return the preamble of an ended run of a thread, from what was saved at its end; None where that is not so."""
    state = next((frame for frame in kept.frames if frame.startswith(STATE_SNAPSHOT)), None)
    if state is None:
        return None
    ends = kept.frames if kept.frames[0].startswith(RUN_STARTED) else _ends_of_log(run, store, kept.last_seq)
    if not ends:
        return None
    started, terminal = ends[0], ends[-1]
    return Preamble([*opening_frames(started, state=state, messages=so_far.messages), terminal], kept.last_seq)


def _folded(run: StoredRun, store: RunStore, so_far: ThreadSoFar | None) -> LogFold:
    if so_far is None:
        posted = posted_state(run.key, store)
        fold = LogFold(messages_before(store, run), state={} if posted is None else posted)
    else:
        state = state_before(run.key, store, so_far.state, is_own=so_far.state_seq > 0)
        fold = LogFold(
            so_far.messages,
            state={} if state is None else state,
            applied_seq=so_far.applied_seq,
            state_seq=so_far.state_seq,
        )
    # What is missing of a log that is pruned meanwhile is missed by the caller.
    with suppress(LogPruned):
        for frame in frames_after(store, run.key, after=0):
            fold.take(frame)
    return fold


def _ends_of_log(run: StoredRun, store: RunStore, last_seq: int) -> list[bytes]:
    """Return the first and the last frame of a log, nothing where they are not there any more."""
    try:
        ends = [frame for after in (0, last_seq - 1) for frame in store.read_frames(run.key, after=after, max_bytes=1)]
    except LogPruned:
        return []
    return ends if len(ends) == 2 else []
