"""A thread with what its running turn has brought so far."""

from dataclasses import replace
from typing import Any

from ag_ui.core import EventType
from pydantic_core import from_json

from django_pydantic_agent.log.frames import begins_attempt, is_terminal
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.stores.base import RunStore
from django_pydantic_agent.stores.conversations import StoredThread
from django_pydantic_agent.threads.reconcile import overlay_state


def with_running_turn(thread: StoredThread, store: RunStore) -> StoredThread:
    """Return the thread as of the last committed event of its active run, which `applied_seq` then names.

    Following the run from there brings all that is missing. The end of a run is left to those who follow it, because it
    has changed the thread in more than messages.
    """
    active = thread.active_run
    if active is None:
        return thread
    place = len(thread.messages) - active.behind
    state = state_before(active.key, store, thread.state, is_own=active.state_seq > 0)
    projection = Projection(thread.messages[:place], state=state)
    applied_seq = active.applied_seq
    for frame in frames_after(store, active.key, after=applied_seq):
        if is_terminal(frame):
            break
        # Snapshots tell a client what the store has told here, unless a new attempt takes something back.
        event = from_json(frame)
        if event["type"] != EventType.MESSAGES_SNAPSHOT or begins_attempt(event):
            projection.apply_json(event)
        applied_seq += 1
    return replace(
        thread,
        messages=[*projection.messages, *thread.messages[place:]],
        state=projection.state,
        active_run=replace(active, applied_seq=applied_seq),
    )


def state_before(run: int, store: RunStore, stored: Any, *, is_own: bool) -> Any:
    """Return the state that a run's events change: the one stored with its thread, if it `is_own`, else what began."""
    if is_own:
        return stored
    thread = (store.request(run) or {}).get("thread") or {}
    return overlay_state(stored, posted_state(run, store), knows_newest=thread.get("knows_newest", True))


def posted_state(run: int, store: RunStore) -> Any:
    """Return the state that a run was accepted with."""
    return from_json(store.input(run)).get("state")
