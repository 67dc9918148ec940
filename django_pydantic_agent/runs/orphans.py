"""What becomes of a run that was taken over: it is ended from its log, or executed here."""

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ag_ui.core import EventType
from pydantic_core import from_json

from django_pydantic_agent.connections import is_outage
from django_pydantic_agent.exceptions import LeaseLost, StoreUnavailable, ThreadNotFound
from django_pydantic_agent.log.frames import begins_attempt, encode
from django_pydantic_agent.log.preamble import state_frame
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.log.reading import frames_after
from django_pydantic_agent.policy.audit import AuditRecord, tell
from django_pydantic_agent.policy.failure import UNKNOWN_SERVER
from django_pydantic_agent.runs.announcer import Announcer
from django_pydantic_agent.runs.attach import put_to_rest
from django_pydantic_agent.runs.mounts import find_mount
from django_pydantic_agent.runs.outcome import Outcome, failed
from django_pydantic_agent.runs.rebuild import CannotRebuild, accepted_messages, rebuilt_plan
from django_pydantic_agent.runs.timing import Stopwatch, log_timing
from django_pydantic_agent.runs.turn import turn_save
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.conversations import ConversationStore
from django_pydantic_agent.stores.effects import Reason
from django_pydantic_agent.stores.leases import Orphan
from django_pydantic_agent.stores.writes import Ending, RunWrite
from django_pydantic_agent.threads.running import posted_state, state_before

if TYPE_CHECKING:
    from django_pydantic_agent.runs.engine import Engine

logger = logging.getLogger(__name__)

_STATE = frozenset({EventType.STATE_SNAPSHOT, EventType.STATE_DELTA})


def go_on(orphan: Orphan, store: RunStore, engine: "Engine") -> None:
    """Execute a run here that was taken over; end it where that cannot be done.

    Raises what the database says that is away; nobody beats for the run then, so that it is found again.
    """
    try:
        plan = rebuilt_plan(orphan, find_mount(orphan.run.server), store)
    except LookupError as error:
        end(orphan, store, failed(error, UNKNOWN_SERVER), announcer=engine.announcer)
    except CannotRebuild as error:
        end(orphan, store, failed(error, error.failure), announcer=engine.announcer)
    except Exception as error:
        if isinstance(error, StoreUnavailable) or is_outage(error):
            raise
        logger.exception("Run %r could not be executed here.", orphan.run.run_id)
        end(orphan, store, failed(error), announcer=engine.announcer)
    else:
        engine.launch(plan, orphan.run)


def end(orphan: Orphan, store: RunStore, outcome: Outcome, *, announcer: Announcer) -> bool:
    """Close what the run's log leaves open and write the end of the run, its turn included, in one transaction.

    Returns False where another process has taken the run over meanwhile. Raises what the store says of a run whose end
    it refuses.
    """
    run, conversation = orphan.run, _conversation(orphan)
    try:
        projection = folded(orphan, store, conversation)
    except ThreadNotFound:
        logger.warning("The thread of run %r is gone; the run ends outside of it.", run.run_id)
        conversation = None
        projection = folded(orphan, store, None)
    closing = [encode(event) for event in projection.items.closing()]
    for frame in closing:
        projection.apply_frame(frame)
    stopwatch = Stopwatch(run.started_at)
    stopwatch.end()
    timing = stopwatch.record()
    write = RunWrite(
        key=run.key,
        epoch=run.epoch,
        first_seq=run.last_seq + 1,
        frames=closing,
        ending=Ending(
            status=outcome.status,
            frame=outcome.frame,
            error=outcome.error,
            message_ids=projection.message_ids,
            timing=timing,
            unresolved=Reason.CRASHED,
            folded=() if conversation is None else [state_frame(projection.state)],
        ),
        conversation=conversation,
        turns=[] if conversation is None else [turn_save(run.key, projection, run.last_seq + len(closing))],
    )
    [refusal] = store.commit([write])
    if refusal is not None and not isinstance(refusal, LeaseLost) and write.turns:
        logger.error("The turn of run %r cannot be saved; the run ends without it.", run.run_id, exc_info=refusal)
        write.turns = []
        [refusal] = store.commit([write])
    if isinstance(refusal, LeaseLost):
        return False
    if refusal is not None:
        raise refusal
    log_timing(run.run_id, outcome.status, timing)
    announcer.committed(run, write, store=store)
    announcer.put(partial(_audit, run, store, outcome, seconds=timing["end"]))
    put_to_rest(run, store=store, conversation=conversation, last_seq=write.last_seq)
    return True


def _audit(run: StoredRun, store: RunStore, outcome: Outcome, *, seconds: float) -> None:
    """Have the mount's audit logger told of the end of a run, if there is one."""
    try:
        audit_logger = find_mount(run.server).config.audit_logger
    except LookupError:
        return
    if audit_logger is not None:
        record = AuditRecord.of(
            "run",
            run,
            outcome=outcome.status.value,
            duration_seconds=seconds,
            input_bytes=len(store.input(run.key)),
            output_bytes=None,
        )
        tell(audit_logger, record)


def _conversation(orphan: Orphan) -> ConversationStore | None:
    """Return where the run's thread is, if it has one: what its mount says, else where the run's row says it is."""
    if orphan.request is None or orphan.request["thread"] is None:
        return orphan.conversation
    try:
        return find_mount(orphan.run.server).conversation or orphan.conversation
    except LookupError:
        return orphan.conversation


def folded(
    orphan: Orphan, store: RunStore, conversation: ConversationStore | None, *, until: int | None = None
) -> Projection:
    """Return what the run's log adds up to, as it did in the process that is gone; with `until`, as of that seq.

    In a thread its messages are those of the run only.
    """
    run = orphan.run
    if conversation is None:
        projection = Projection(state=posted_state(run.key, store) or {})
    else:
        stored = conversation.ground(run=run.key).state
        state = state_before(run.key, store, stored, is_own=orphan.state_seq > 0)
        projection = Projection(accepted_messages(run.key, store), state={} if state is None else state)
    projection.items.expect(answer.tool_call_id for answer in store.answers(run.key))
    frames = islice(frames_after(store, run.key, after=0), run.last_seq if until is None else until)
    for seq, event in enumerate(map(from_json, frames), 1):
        kind = event["type"]
        if kind == EventType.MESSAGES_SNAPSHOT and begins_attempt(event):
            known = set(projection.message_ids)
            event["messages"] = [message for message in event["messages"] if message["id"] in known]
        elif kind == EventType.RUN_STARTED or (kind == EventType.MESSAGES_SNAPSHOT and conversation is not None):
            # What was accepted is there, and what a client was caught up with is in the thread already.
            continue
        if kind not in _STATE or seq > orphan.state_seq:
            projection.apply_json(event)
    return projection
