"""The tool calls that a run was in the middle of: which have acted, which have not, and of which nobody knows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ag_ui.core import ToolMessage
from pydantic_ai import SkipToolExecution
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from django_pydantic_agent.log.call_ids import model_id
from django_pydantic_agent.log.closing import INTERRUPTED_RESULT
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.policy.verdicts import LOST_RESULT, VERDICTS
from django_pydantic_agent.stores.effects import StoredEffect, Verdict
from django_pydantic_agent.threads.history import returned


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCalls:
    """What is known of the calls in the response that a run was acting on.

    `results` holds, by the model's id of a call, what the model hears of it without another execution; `on_wire` are
    the ids on the wire of all of them, and those in `shown` have their result in the log already. `unknown` are the
    calls that may have acted and may not be made again. All others are yet to be executed.
    """

    results: Mapping[str, Any] = field(default_factory=dict)
    on_wire: Mapping[str, str] = field(default_factory=dict)
    shown: frozenset[str] = frozenset()
    unknown: Sequence[ToolCallPart] = ()

    def wire_id(self, tool_call_id: str) -> str:
        """Return the id on the wire of a call."""
        return self.on_wire.get(tool_call_id, tool_call_id)

    def returns(self, response: ModelResponse, *, leave: Collection[str]) -> list[ToolReturnPart]:
        """Return what the model is told of the calls in `response` if none is executed, but for those to `leave`."""
        parts = []
        for call in response.tool_calls:
            if call.tool_call_id not in leave:
                content = self.results.get(call.tool_call_id, INTERRUPTED_RESULT)
                parts.append(
                    ToolReturnPart(
                        tool_name=call.tool_name,
                        content=content,
                        tool_call_id=call.tool_call_id,
                        outcome="interrupted" if content == INTERRUPTED_RESULT else "success",
                    )
                )
        return parts


async def unfinished_calls(
    response: ModelResponse,
    projection: Projection,
    *,
    effect: Callable[[str], Any] | None,
    may_repeat: Callable[[str], bool],
    told: Mapping[str, str],
    earlier: Mapping[str, Any],
    answered: Mapping[str, str],
) -> UnfinishedCalls:
    """Look into the calls of a response, which is the last one in the log that `projection` stands for.

    `effect` returns, awaited, what the ledger has of a call, None where the call was never begun; without a ledger
    every call without a result may have acted. `may_repeat` tells of a tool whether that does not matter. `told` is
    what `told_of` makes of the ledger: a call in it is not executed, whatever its tool is.
    Where an earlier run has made the calls, `earlier` are the results that it has brought, and `answered` the ids on
    the wire of those that this run has decisions on.
    """
    answers = {
        message["toolCallId"]: ToolMessage.model_validate(message)
        for message in projection.messages
        if message["role"] == "tool"
    }
    results: dict[str, Any] = {}
    shown: list[str] = []
    unknown: list[ToolCallPart] = []
    on_wire = {**_ids_on_wire(response, projection), **answered}
    for call in response.tool_calls:
        wire_id = on_wire.get(call.tool_call_id, call.tool_call_id)
        if call.tool_call_id in earlier:
            results[call.tool_call_id] = earlier[call.tool_call_id]
            shown.append(wire_id)
            continue
        if (answer := answers.get(wire_id)) is not None:
            results[call.tool_call_id] = _content(answer, call)
            shown.append(wire_id)
            continue
        record = None if effect is None else await effect(call.tool_call_id)
        if call.tool_call_id in told:
            results[call.tool_call_id] = told[call.tool_call_id]
        elif record is not None and record.status != "started":
            results[call.tool_call_id] = LOST_RESULT
        elif (record is not None or effect is None) and not may_repeat(call.tool_name):
            unknown.append(call)
    return UnfinishedCalls(results=results, on_wire=on_wire, shown=frozenset(shown), unknown=unknown)


def told_of(effects: Iterable[StoredEffect], run_id: str) -> dict[str, str]:
    """Return what the model is told of the run's own calls that have returned or have a verdict, by their ids."""
    own = [effect for effect in effects if effect.run_id == run_id]
    told = {effect.tool_call_id: LOST_RESULT for effect in own if effect.status == "completed"}
    return told | {
        effect.tool_call_id: VERDICTS[Verdict(effect.verdict)]
        for effect in own
        if effect.verdict and effect.status == "started"
    }


def is_cut(messages: Sequence[ModelMessage]) -> bool:
    """Return whether a repaired history ends with calls that were interrupted."""
    return any(_was_interrupted(part) for message in _behind_last_calls(messages) for part in message.parts)


def with_told(messages: Sequence[ModelMessage], told: Mapping[str, str]) -> list[ModelMessage]:
    """Return a repaired history in which the last calls that were interrupted have what `told` has of them."""
    behind = _behind_last_calls(messages)
    changed = [
        replace(message, parts=[_told(part, told) for part in message.parts])
        if isinstance(message, ModelRequest)
        else message
        for message in behind
    ]
    return [*messages[: len(messages) - len(behind)], *changed]


def _behind_last_calls(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelResponse) and message.tool_calls:
            return messages[place + 1 :]
    return ()


def _told(part: Any, told: Mapping[str, str]) -> Any:
    if not _was_interrupted(part) or part.tool_call_id not in told:
        return part
    return replace(part, content=told[part.tool_call_id])


def _was_interrupted(part: Any) -> bool:
    return isinstance(part, ToolReturnPart) and part.outcome == "interrupted"


@dataclass
class AnsweredCalls(AbstractCapability[Any]):
    """Answers calls that have acted, by the ids of the response that a run goes on from, instead of executing them."""

    results: dict[str, Any]
    id: str | None = field(default="django_pydantic_agent_answered_calls", kw_only=True)

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        if call.tool_call_id in self.results:
            raise SkipToolExecution(self.results[call.tool_call_id])
        return args

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        # The model may use an id again.
        self.results = {}
        return request_context


def _ids_on_wire(response: ModelResponse, projection: Projection) -> dict[str, str]:
    """Return the ids on the wire of the calls of the last response that the log knows, by the model's ids."""
    ids = [call["id"] for message in projection.messages for call in message.get("toolCalls", ())]
    # Of a call that another run has made, the log has the result at most.
    ids += [message["toolCallId"] for message in projection.messages if message["role"] == "tool"]
    latest = {model_id(wire_id): wire_id for wire_id in ids}
    calls = [call.tool_call_id for call in response.tool_calls]
    return {call: latest[model_id(call)] for call in calls if model_id(call) in latest}


def _content(answer: ToolMessage, call: ToolCallPart) -> Any:
    parts = returned(answer, call.tool_name)
    return parts[0].content if parts else LOST_RESULT
