"""The tool calls that a run was in the middle of: which have acted, which have not, and of which nobody knows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import ToolMessage
from pydantic_ai import SkipToolExecution
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from django_pydantic_agent.log.adapter import model_id
from django_pydantic_agent.log.projection import Projection
from django_pydantic_agent.threads.history import returned

LOST_RESULT = "The tool has run, but its result was lost with the process that ran it."


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCalls:
    """What is known of the calls in the response that a run was acting on.

    `results` holds, by the model's id of a call, what the model hears of it without another execution; `on_wire` are
    the ids on the wire of all of them, and those in `shown` have their result in the log already. `unknown` names the
    tools that may have acted and may not be called again. All other calls are yet to be executed.
    """

    results: Mapping[str, Any] = field(default_factory=dict)
    on_wire: Mapping[str, str] = field(default_factory=dict)
    shown: frozenset[str] = frozenset()
    unknown: Sequence[str] = ()


async def unfinished_calls(
    response: ModelResponse,
    projection: Projection,
    *,
    effect: Callable[[str], Any] | None,
    may_repeat: Callable[[str], bool],
) -> UnfinishedCalls:
    """Look into the calls of a response, which is the last one in the log that `projection` stands for.

    `effect` returns, awaited, what the ledger has of a call, None where the call was never begun; without a ledger
    every call without a result may have acted. `may_repeat` tells of a tool whether that does not matter.
    """
    answers = {
        message["toolCallId"]: ToolMessage.model_validate(message)
        for message in projection.messages
        if message["role"] == "tool"
    }
    results: dict[str, Any] = {}
    shown: list[str] = []
    unknown: list[str] = []
    on_wire = _ids_on_wire(response, projection)
    for call in response.tool_calls:
        wire_id = on_wire.get(call.tool_call_id, call.tool_call_id)
        if (answer := answers.get(wire_id)) is not None:
            results[call.tool_call_id] = _content(answer, call)
            shown.append(wire_id)
            continue
        record = None if effect is None else await effect(call.tool_call_id)
        if record is not None and record.status != "started":
            results[call.tool_call_id] = LOST_RESULT
        elif (record is not None or effect is None) and not may_repeat(call.tool_name):
            unknown.append(call.tool_name)
    return UnfinishedCalls(
        results=results, on_wire=on_wire, shown=frozenset(shown), unknown=list(dict.fromkeys(unknown))
    )


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
