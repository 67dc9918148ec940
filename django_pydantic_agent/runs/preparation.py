"""What a mount's configuration and hooks make for one run."""

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ag_ui.core import RunAgentInput, ToolMessage
from django.db import InterfaceError, OperationalError
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied, UsageLimits
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart, repair_messages

from django_pydantic_agent.agents.build import build_agent, is_idempotent
from django_pydantic_agent.agents.deps import AgentDeps
from django_pydantic_agent.agents.tools import RunThread
from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.connections import is_outage, release_connections
from django_pydantic_agent.exceptions import NotContinuable, StoreUnavailable
from django_pydantic_agent.policy.approvals import ApprovalPolicy
from django_pydantic_agent.policy.audit import Audit
from django_pydantic_agent.runs.hooks import RunHooks
from django_pydantic_agent.runs.journal import Journal
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.resumption import Resumption
from django_pydantic_agent.runs.states import Question, RunStatus
from django_pydantic_agent.runs.turn import RunTurn
from django_pydantic_agent.runs.unfinished_calls import (
    AnsweredCalls,
    UnfinishedCalls,
    is_cut,
    told_of,
    unfinished_calls,
    with_told,
)
from django_pydantic_agent.stores.approvals import StoredInterrupt
from django_pydantic_agent.stores.attempts import latest_snapshot
from django_pydantic_agent.stores.base import RunHistory, StoredRun
from django_pydantic_agent.stores.effects import StoredEffect
from django_pydantic_agent.threads.history import DecidedCall, asked, decided_calls

FIRST_RETRY = 0.05
LONGEST_RETRY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An agent, what it is given, and the arguments of its run.

    `answered` are the calls of an earlier run that it has decisions on, by the model's ids and with their ids on the
    wire; `calls` are those that an earlier attempt has left, and `returns` the results of these in `history`.
    """

    agent: AbstractAgent[Any, Any]
    run_input: RunAgentInput
    history: list[ModelMessage]
    arguments: dict[str, Any]
    answered: Mapping[str, str]
    calls: UnfinishedCalls
    returns: Sequence[ToolReturnPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a run goes on from; `decisions` are those on open calls in `history`, which are `answered`.

    `calls` are those that an earlier attempt has left, and `returns` the results of these in `history`.
    """

    run_input: RunAgentInput
    history: list[ModelMessage]
    decisions: DeferredToolResults | None = None
    answered: Mapping[str, str] = field(default_factory=dict)
    calls: UnfinishedCalls = field(default_factory=UnfinishedCalls)
    returns: Sequence[ToolReturnPart] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Prepares one attempt at a run; the project's hooks are called on `threads`, as its tools are.

    The engine itself reads on `readers`, so that it does not wait for hooks and tools that block. `history` is what it
    keeps of the model's messages.
    """

    plan: RunPlan
    run: StoredRun
    journal: Journal
    history: RunHistory
    threads: Executor
    readers: Executor
    own_thread: RunThread | None
    turn: RunTurn | None
    reached: Callable[[list[ModelMessage]], None]
    audit: Audit | None

    async def prepare(self, resumption: Resumption | None = None) -> Prepared:
        config = self.plan.config
        makes_agent = self.threads if callable(config.source) else self.readers
        agent = await _on(makes_agent, build_agent, config.source)
        # What the engine itself is to read by.
        step_store = await self._call(config.step_store, self.readers)
        past = await self._past(step_store, resumption)
        # In front of all others: what waits for approval has not begun for them, and what has ended they have seen.
        policy = config.approval_policy
        capabilities: list[Any] = [] if policy is None else [ApprovalPolicy(partial(self.call, policy))]
        capabilities += [AnsweredCalls(dict(past.calls.results))] if past.calls.results else []
        capabilities += [_made(capability) for capability in config.capabilities]
        # A ledger of ours commits what was reached together with the tool's own row.
        is_alone = config.on_orphan == "resume" and not hasattr(step_store, "recording")
        hooks = RunHooks(
            thread=self.own_thread,
            reached=self.reached if self.plan.keeps_boundaries else None,
            committed=self.journal.settled if is_alone else None,
            failure_policy=config.failure_policy,
            audit=self.audit,
        )
        if step_store is None:
            capabilities.append(hooks)
        else:
            from django_pydantic_agent.runs.steps import with_steps

            step_store, recording = with_steps(
                hooks, step_store, self.journal, history=self.history, run=self.run, parent=self.plan.source
            )
            capabilities += recording
        model = await self.call(config.model_for_request) or config.model
        instructions = await self.call(config.instructions_for_request) or config.instructions
        arguments = {
            "output_type": _output_type(agent),
            "message_history": past.history,
            "deferred_tool_results": past.decisions,
            "run_id": self.run.ledger_ids[0],
            "model": model or (agent_settings.MODEL if agent.model is None else None),
            "instructions": instructions or agent_settings.INSTRUCTIONS,
            "deps": await self._deps(past.run_input, step_store),
            "model_settings": config.model_settings or agent_settings.MODEL_SETTINGS,
            "usage_limits": config.usage_limits or agent_settings.USAGE_LIMITS or UsageLimits(request_limit=None),
            "toolsets": [_made(toolset) for toolset in config.toolsets],
            "capabilities": capabilities,
            "infer_name": False,
        }
        return Prepared(
            agent=agent,
            run_input=past.run_input,
            history=past.history,
            arguments=arguments,
            answered=past.answered,
            calls=past.calls,
            returns=past.returns,
        )

    async def read(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function reads from the database, however long that is away within the patience."""
        deadline, retry = time.monotonic() + agent_settings.STORE_PATIENCE_SECONDS, FIRST_RETRY
        while True:
            try:
                return await self.read_once(function, *args)
            except (OperationalError, InterfaceError) as error:
                if not is_outage(error):
                    raise
                if time.monotonic() > deadline:
                    raise StoreUnavailable(str(error)) from error
            await self.read_once(release_connections)
            await asyncio.sleep(retry)
            retry = min(retry * 2, LONGEST_RETRY)

    async def read_once(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function reads from the database, or writes there on its own."""
        return await _on(self.readers, function, *args)

    async def _past(self, step_store: Any, resumption: Resumption | None) -> Past:
        """Return the run's input and the history that it goes on from."""
        run_input = self.plan.run_input
        if resumption is not None and resumption.history:
            return await self._resumed(step_store, resumption)
        if run_input.resume:
            return await self._answering(step_store, run_input)
        if self.plan.source is not None:
            return Past(run_input=run_input, history=await self._continued(step_store, self.plan.source))
        if self.turn is not None:
            run_input, history, previous = await self.read(self.turn.begin, run_input)
            if previous is not None and is_cut(history):
                run = await self.read(partial(self.plan.store.by_key, previous, owner=self.run.owner))
                history = with_told(history, told_of(await _effects(step_store, run), run.run_id)) if run else history
            return Past(run_input=run_input, history=history)
        return Past(run_input=run_input, history=[])

    async def _continued(self, step_store: Any, source: StoredRun) -> list[ModelMessage]:
        """Return the history of a run's last complete snapshot.

        Where a person has given a verdict on calls that the model has asked for behind that, it is the history up to
        these, so that the model does not ask for them again.
        """
        snapshot = await latest_snapshot(step_store, source)
        if snapshot is None:
            raise NotContinuable
        # A run that has come to its end has no call that was cut.
        effects = [] if source.status is RunStatus.FINISHED else await _effects(step_store, source)
        if any(effect.verdict for effect in effects):
            newest = await latest_snapshot(step_store, source, include_interrupted=True)
            history = repair_messages(newest.messages if newest else [])
            if is_cut(history):
                return with_told(history, told_of(effects, source.run_id))
        return snapshot.messages

    async def _resumed(self, step_store: Any, resumption: Resumption) -> Past:
        """Return what the next attempt goes on from."""
        going_on = {"messages": [], "state": resumption.projection.state, "resume": None}
        run_input = self.plan.run_input.model_copy(update=going_on)
        response = resumption.response
        if response is None:
            return Past(run_input=run_input, history=resumption.history)
        decided = []
        if self.plan.run_input.resume:
            answers = await self.read(self.plan.store.answers, self.journal.key)
            decided = await self._decided(step_store, resumption.history, answers)
        # The model may have used their ids again.
        decided = [one for one in decided if any(one.call is call for call in response.tool_calls)]
        answered = {one.call.tool_call_id: one.wire_id for one in decided}
        calls = await self._calls(resumption, response, step_store, answered)
        decisions = {call: one.decision for one in decided if (call := one.call.tool_call_id) not in calls.results}
        left = {call.tool_call_id for call in calls.unknown} or decisions.keys()
        if not left:
            return Past(run_input=run_input, history=resumption.history, calls=calls)
        returns = calls.returns(response, leave=left)
        return Past(
            run_input=run_input,
            history=[*resumption.history, *([ModelRequest(parts=returns)] if returns else [])],
            decisions=DeferredToolResults(approvals={**decisions}),
            answered=answered,
            calls=calls,
            returns=returns,
        )

    async def _answering(self, step_store: Any, run_input: RunAgentInput) -> Past:
        """Return what a run goes on from that answers interrupts."""
        answers = await self.read(self.plan.store.answers, self.journal.key)
        if self.turn is not None:
            run_input = await self.read(self.turn.with_state, run_input)
        results = [message for message in run_input.messages if isinstance(message, ToolMessage)]
        said = [message for message in run_input.messages if not isinstance(message, ToolMessage)]
        history = await self.read(asked, self.history, answers[0].run, results)
        decided = await self._decided(step_store, history, answers)
        return Past(
            run_input=run_input.model_copy(update={"messages": said, "resume": None}),
            history=history,
            decisions=DeferredToolResults(approvals={one.call.tool_call_id: one.decision for one in decided}),
            answered={one.call.tool_call_id: one.wire_id for one in decided},
        )

    async def _decided(
        self, step_store: Any, messages: Sequence[ModelMessage], answers: Sequence[StoredInterrupt]
    ) -> list[DecidedCall]:
        """Return the calls in a history that answers decide on.

        Of a call that was cut, the model is told the verdict that came first.
        """
        calls = decided_calls(messages, answers)
        if all(answer.reason != Question.UNKNOWN_EFFECT for answer in answers):
            return calls
        run = await self.read(partial(self.plan.store.by_key, answers[0].run, owner=self.run.owner))
        told = {} if run is None else told_of(await _effects(step_store, run), run.run_id)
        return [
            replace(one, decision=ToolDenied(told[one.call.tool_call_id])) if one.call.tool_call_id in told else one
            for one in calls
        ]

    async def _calls(
        self, resumption: Resumption, response: ModelResponse, step_store: Any, answered: Mapping[str, str]
    ) -> UnfinishedCalls:
        """Return what is known of the calls in a response, of which a person has `answered` some."""
        config = self.plan.config
        frontend = {tool.name for tool in self.plan.run_input.tools or ()}
        earlier = self.run.ledger_ids[1:]

        async def effect(tool_call_id: str) -> Any:
            for ledger_id in earlier:
                record = await step_store.get_tool_effect(run_id=ledger_id, tool_call_id=tool_call_id)
                if record is not None:
                    return record
            return None

        return await unfinished_calls(
            response,
            resumption.projection,
            effect=None if step_store is None else effect,
            may_repeat=lambda tool: tool in frontend or is_idempotent(config.source, tool),
            told=told_of(await _effects(step_store, self.run), self.run.run_id),
            earlier=resumption.returned,
            answered=answered,
        )

    async def _deps(self, run_input: RunAgentInput, step_store: Any) -> Any:
        request = self.plan.request
        if self.plan.config.deps_factory is not None:
            return await self.call(self.plan.config.deps_factory)
        return AgentDeps(
            user=request.user,
            owner=request.owner,
            request=request,
            state=run_input.state or {},
            context=run_input.context or [],
            forwarded_props=run_input.forwarded_props or {},
            run_id=run_input.run_id,
            thread_id=run_input.thread_id,
            step_store=step_store,
        )

    async def call(self, hook: Callable[..., Any] | None, *more: Any) -> Any:
        """Return what a hook makes of the request, and of what else it is given."""
        return await self._call(hook, self.threads, *more)

    async def _call(self, hook: Callable[..., Any] | None, threads: Executor, *more: Any) -> Any:
        if hook is None:
            return None
        if inspect.iscoroutinefunction(hook):
            return await hook(self.plan.request, *more)
        result = await _on(threads, hook, self.plan.request, *more)
        return await result if inspect.isawaitable(result) else result


async def _on(threads: Executor, function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns that may block."""
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, function, *args)


async def _effects(step_store: Any, run: StoredRun) -> list[StoredEffect]:
    """Return what the ledger shows of the calls of a run, nothing where it keeps no verdicts."""
    if not hasattr(step_store, "list_tool_effects"):
        return []
    effects: list[StoredEffect] = await step_store.list_tool_effects(run_id=run.run_id)
    return effects


def _output_type(agent: AbstractAgent[Any, Any]) -> Any:
    """Return the agent's output type with room for calls that wait for approval.

    pydantic-ai takes no output type of the run beside output validators; such an agent has to name it itself.
    """
    if getattr(agent, "_output_validators", None):
        return None
    return [agent.output_type, DeferredToolRequests]


def _made(source: Any) -> Any:
    """Return a pydantic-ai object, made by `source` where that is a callable that makes one for each run."""
    return source() if inspect.isroutine(source) or inspect.isclass(source) else source
