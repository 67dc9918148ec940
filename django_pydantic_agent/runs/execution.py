"""One run, from its plan to its terminal frame."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, aclosing
from typing import Any, cast
from uuid import uuid4

from ag_ui.core import BaseEvent, EventType, ToolCallResultEvent
from pydantic_ai import Agent
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage

from django_pydantic_agent.agents.tools import RunThread
from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.exceptions import LeaseLost, ThreadNotFound
from django_pydantic_agent.log.adapter import RunAdapter, ToolCallIds, asked_call
from django_pydantic_agent.log.chunks import Chunks
from django_pydantic_agent.log.frames import bounded, encode, wire_form
from django_pydantic_agent.log.preamble import state_frame
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.policy.audit import Audit
from django_pydantic_agent.runs.attach import put_to_rest
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.outcome import Outcome, asking_what_became, failed, finished, outcome_of, stopped
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.preparation import Preparation, Prepared
from django_pydantic_agent.runs.recorder import Recorder
from django_pydantic_agent.runs.resumption import Resumption, resumption
from django_pydantic_agent.runs.states import Decision, RunStatus
from django_pydantic_agent.runs.stop import Stop
from django_pydantic_agent.runs.timing import Stopwatch, log_timing
from django_pydantic_agent.runs.turn import RunTurn
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.writes import Ending

logger = logging.getLogger(__name__)

# What belongs to the engine; a tool that returns such an event would end or restart the run for its viewers.
_RUN_LEVEL = frozenset({EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.RUN_ERROR})
# In a thread the transcript is the engine's too: a tool's snapshot would shorten the conversation.
_THREAD_LEVEL = _RUN_LEVEL | {EventType.MESSAGES_SNAPSHOT}

SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
"""Seconds between two looks for what a person has decided, whom a run may wait for for days."""

_DELTAS = frozenset({EventType.TEXT_MESSAGE_CONTENT, EventType.REASONING_MESSAGE_CONTENT, EventType.TOOL_CALL_ARGS})


class Execution:
    """Executes one run: waits for its turn, feeds the agent, logs its events, and writes how it ended.

    `wait_for` returns once a run that is live and ahead in the same thread has ended, or earlier, to be asked again.
    `has_begun` says that it is this run's turn, `is_held_up` that it waits for a person's answer, or for a run that has
    not begun either.
    """

    def __init__(
        self,
        plan: RunPlan,
        run: StoredRun,
        *,
        recorder: Recorder,
        tool_threads: Executor,
        readers: Executor,
        wait_for: Callable[[StoredRun], Awaitable[None]],
        own_thread: bool = True,
    ) -> None:
        thread = plan.thread
        self.plan = plan
        self.run_id = run.run_id
        self.key = (id(plan.store), run.key)
        self.epoch = run.epoch
        self.has_begun = False
        self.is_held_up = False
        self.log = LiveLog(plan.store, run.key, last_seq=run.last_seq, status=run.status)
        self._run = run
        self._announcer = recorder.announcer
        self._journal = recorder.open(plan.store, run, self.log, thread.conversation if thread else None)
        self._history = plan.store.history(run.key)
        self._turn = RunTurn(thread, plan.store, run.key, self._history) if thread else None
        self._turn_saved = 0.0
        self._has_begun_turn = False
        self._thread = RunThread() if own_thread else None
        audit_logger = plan.config.audit_logger
        self._audit = None if audit_logger is None else Audit(audit_logger, run, recorder.announcer)
        self._preparation = Preparation(
            plan=plan,
            run=run,
            journal=self._journal,
            history=self._history,
            threads=tool_threads,
            readers=readers,
            own_thread=self._thread,
            turn=self._turn,
            reached=self._reached,
            audit=self._audit,
        )
        self._wait_for = wait_for
        self._stop = Stop()
        self._stopped_by_shutdown = False
        self._projection = Projection(state=wire_form(plan.run_input.state))
        self._stopwatch = Stopwatch(run.started_at)

    def cancel(self, *, for_shutdown: bool = False) -> None:
        """Ask the run to stop; safe from any thread, and more than once."""
        self._stopped_by_shutdown |= for_shutdown
        self._stop.request()

    def abandon(self) -> None:
        """Have the run stop and write nothing any more, because it goes on elsewhere; safe from any thread."""
        self._journal.abandon()
        self._stop.request()

    async def run(self) -> None:
        """Execute the run to its terminal frame; whatever goes wrong becomes that frame."""
        async with AsyncExitStack() as stack:
            if self._thread is not None:
                await stack.enter_async_context(self._thread)
            try:
                await self._stop.first(self._wait_for_turn())
                outcome = await self._execute()
            except LeaseLost:
                return
            except RunCancelled as error:
                outcome = stopped(error, self._run, shutdown=self._stopped_by_shutdown)
            except Exception as error:
                if await self._is_deleted():
                    logger.info("Run %r was deleted as it went on.", self.run_id, exc_info=error)
                    return
                outcome = failed(error, policy=self.plan.config.failure_policy)
            if not isinstance(self._journal.failure, LeaseLost):
                await self._end(outcome)

    async def _is_deleted(self) -> bool:
        """Return whether the run is not there any more; what reads it fails then, at whatever it misses first."""
        try:
            return not await self._preparation.read_once(self.plan.store.progress, [self._run.key])
        except Exception:
            return False

    async def release(self) -> None:
        """Have the run stop, with all that it has queued committed, and let another process take it over at once."""
        await self._journal.seal()
        leases = self.plan.store.leases
        if leases is not None and not self.log.ended:
            await self._preparation.read_once(leases.release, self._run.key, self.epoch)
        self._stop.request()

    async def _wait_for_turn(self) -> None:
        """Wait for the runs ahead in the thread."""
        pause = SHORTEST_PAUSE
        while (ahead := await self._ahead()) is not None:
            self.is_held_up = ahead.status is not RunStatus.RUNNING
            if ahead.status.is_live:
                await self._wait_for(ahead)
            elif ahead.interrupts:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                await self._preparation.read(self._expire, ahead)
            self.is_held_up = False
        self.has_begun = True

    async def _ahead(self) -> StoredRun | None:
        """Return the run that this one waits for next, None where it is its turn."""
        if self._turn is None:
            return None
        ahead: StoredRun | None = await self._preparation.read(self.plan.store.ahead, self._run.key)
        return ahead

    def _expire(self, run: StoredRun) -> None:
        """Give up what a run ahead has asked, because nobody can approve it any more."""
        thread = self.plan.thread
        conversation = thread.conversation if thread else None
        expired = self.plan.store.give_up(run.key, Decision.EXPIRED, conversation=conversation)
        self._announcer.decided(run, dict.fromkeys(expired, Decision.EXPIRED))

    async def _execute(self) -> Outcome:
        """Run the agent and return how it ended."""
        self._stopwatch.begin()
        seconds = self.plan.config.run_timeout or agent_settings.RUN_TIMEOUT_SECONDS
        until = None if seconds is None else time.monotonic() + seconds
        # To its end, even where the run is stopped meanwhile: what it has left open can be closed only then.
        resumption = await self._resume()
        if resumption is not None and resumption.is_answered:
            return finished(self._run)
        prepared = await self._stop.first(self._prepare(resumption), seconds=_left(until))
        self._tell(prepared)
        if prepared.calls.unknown:
            self._keep(prepared.history)
            unknown = {prepared.calls.wire_id(call.tool_call_id): asked_call(call) for call in prepared.calls.unknown}
            return asking_what_became(self._run, unknown)
        if prepared.answered and resumption is None:
            # Whatever becomes of this run, what it goes on from is then known by it.
            self._keep(prepared.history)
            self._projection.items.expect(prepared.answered.values())
        adapter = RunAdapter(agent=prepared.agent, run_input=prepared.run_input)
        begun = () if resumption is None else resumption.projection.items.calls
        history = [*prepared.history, *adapter.messages]
        call_ids = ToolCallIds(history, begun=begun, on_wire={**prepared.answered, **prepared.calls.on_wire})
        refused = _RUN_LEVEL if self._turn is None else _THREAD_LEVEL
        chunks = Chunks()
        stream = adapter.run_stream(cancellation_token=self._stop.token, timeout=_left(until), **prepared.arguments)
        events = cast("AsyncGenerator[BaseEvent]", stream)
        with Agent.using_thread_executor(self._preparation.threads):
            async with aclosing(events):
                async for event in events:
                    if event.type in refused:
                        logger.warning("Run %r: a tool may not send a %s event.", self.run_id, event.type.value)
                        continue
                    for part in chunks.expand(event):
                        call_ids.apply(part)
                        if not isinstance(part, ToolCallResultEvent) or part.tool_call_id not in prepared.calls.shown:
                            self._emit(part)
                    if self._journal.is_full or self._journal.failure is not None:
                        await self._journal.settled()
        await self._journal.settled()
        outcome = outcome_of(
            adapter.stream,
            call_ids,
            self._run,
            policy=self.plan.config.failure_policy,
            shutdown=self._stopped_by_shutdown,
        )
        if outcome.interrupts and not self.plan.keeps_boundaries and adapter.stream.result is not None:
            self._keep(adapter.stream.result.all_messages())
        return outcome

    def _tell(self, prepared: Prepared) -> None:
        """Log the results of calls that an earlier attempt has left without."""
        for part in prepared.returns:
            wire_id = prepared.calls.wire_id(part.tool_call_id)
            if wire_id not in prepared.calls.shown:
                content = part.model_response_str()
                self._emit(
                    ToolCallResultEvent(message_id=str(uuid4()), tool_call_id=wire_id, content=content, role="tool")
                )

    async def _prepare(self, resumption: Resumption | None) -> Prepared:
        """Prepare the agent, and tell a client at the beginning what it has missed."""
        if resumption is None and self.epoch > 1:
            # What is prepared may be what killed the process before; left queued, the run would kill any number.
            await self._journal.begin()
        prepared = await self._preparation.prepare(resumption)
        if resumption is None:
            accepted = () if self.plan.thread is None else self.plan.thread.start.messages
            state = prepared.run_input.state
            self._projection = Projection(accepted, state=wire_form({} if state is None else state))
            await self._catch_up(state)
        return prepared

    async def _resume(self) -> Resumption | None:
        """Take the run up where another process has left it; None where this is its first attempt."""
        orphan = self.plan.orphan
        if orphan is None:
            return None
        conversation = None if self.plan.thread is None else self.plan.thread.conversation
        found: Resumption = await self._preparation.read(
            resumption, orphan, self.plan.store, conversation, self._history
        )
        self._projection = found.projection
        self._has_begun_turn = self._turn is not None
        for frame in found.frames:
            self._journal.append(frame)
        await self._journal.settled()
        return found

    async def _catch_up(self, state: Any) -> None:
        """Tell a client that does not know the whole thread what it has missed."""
        if self._turn is None:
            return
        self._has_begun_turn = True
        for event in await self._preparation.read(lambda turn: list(turn.catch_up(state)), self._turn):
            frame = encode(event)
            # The messages are in the thread already; what the client added to its state is not.
            if event.type is EventType.STATE_SNAPSHOT:
                self._projection.apply_frame(frame)
            self._journal.append(frame)
            if self._journal.is_full:
                await self._journal.settled()

    def _reached(self, messages: list[ModelMessage]) -> None:
        """Save the model's history, and the turn unless it is to be saved at the end or was so just now."""
        self._keep(messages)
        if self._turn is None:
            return
        now = time.monotonic()
        if (
            self.plan.config.snapshot_save_mode == "roundtrip"
            and now - self._turn_saved >= agent_settings.SNAPSHOT_MIN_SECONDS
        ):
            self._turn_saved = now
            self._journal.save_turn(self._turn.save(self._projection, self._journal.next_seq - 1))

    def _keep(self, messages: list[ModelMessage]) -> None:
        """Save the model's history."""
        if (change := self._history.save(messages, seq=self._journal.next_seq - 1)) is not None:
            self._journal.write(change)

    async def _end(self, outcome: Outcome) -> None:
        """Close what is open and write the terminal event together with the end of the run."""
        if outcome.cause is not None:
            logger.error("Run %r failed (%s).", self.run_id, (outcome.error or {}).get("code"), exc_info=outcome.cause)
        self._stopwatch.end()
        for closing in list(self._projection.items.closing(waiting=outcome.waiting)):
            self._emit(closing)
        ending = Ending(
            status=outcome.status,
            frame=outcome.frame,
            error=outcome.error,
            interrupts=outcome.interrupts,
            asked_calls=outcome.asked_calls,
            pending_calls=outcome.pending_calls,
            usage=outcome.usage,
            message_ids=self._projection.message_ids,
            timing=self._timing(),
            unresolved=outcome.unresolved,
            folded=[state_frame(self._projection.state)] if self._has_begun_turn else (),
        )
        saved = None if self._turn is None else self._turn.save(self._projection, self._journal.next_seq - 1)
        if not await self._journal.end(ending, saved) and not await self._end_refused():
            if not isinstance(self._journal.failure, LeaseLost):
                logger.error("Run %r ended as %s, which could not be saved.", self.run_id, ending.status)
            return
        timing = self._timing()
        log_timing(self.run_id, self.log.status, timing)
        if self._audit is not None:
            await self._audit.record(
                "run",
                outcome=self.log.status.value,
                duration_seconds=timing["end"],
                input_bytes=len(self.plan.request.body),
                output_bytes=self._journal.logged_bytes,
            )
        try:
            await self._preparation.read_once(self._rest)
        except Exception:
            logger.warning("The log of run %r could not be tidied.", self.run_id, exc_info=True)
        await self._entitle()

    async def _end_refused(self) -> bool:
        """Write that the run failed, where the store refuses what it leaves; False where that is not why."""
        refusal = self._journal.failure
        if refusal is None:
            return False
        outcome = failed(refusal)
        ending = Ending(
            status=outcome.status,
            frame=outcome.frame,
            error=outcome.error,
            timing=self._timing(),
            unresolved=outcome.unresolved,
        )
        return await self._journal.end(ending)

    def _rest(self) -> None:
        thread = self.plan.thread
        put_to_rest(
            self._run,
            store=self.plan.store,
            conversation=thread.conversation if thread else None,
            last_seq=self.log.last_seq,
        )

    async def _entitle(self) -> None:
        """Have the mount's hook name the thread that this run has opened."""
        hook, turn = self.plan.config.title_for_thread, self._turn
        if hook is None or turn is None or not turn.opens_thread:
            return
        try:
            messages = await self._preparation.read_once(turn.transcript)
            if title := await self._preparation.call(hook, messages):
                await self._preparation.read_once(turn.entitle, title)
        except ThreadNotFound:
            logger.info("The thread of run %r was deleted before it had a title.", self.run_id)
        except Exception:
            logger.warning("The thread of run %r could not be given a title.", self.run_id, exc_info=True)

    def _emit(self, event: BaseEvent) -> None:
        if event.type in _DELTAS:
            self._stopwatch.delta()
        frame = encode(bounded(event))
        self._projection.apply_frame(frame)
        self._journal.append(frame)

    def _timing(self) -> dict[str, Any]:
        return self._stopwatch.record(commits=self._journal.times, first_viewer=self.log.first_read)


def _left(until: float | None) -> float | None:
    """Return the seconds that are left until a time by the monotonic clock."""
    return None if until is None else max(until - time.monotonic(), 0.001)
