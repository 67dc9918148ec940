"""The comparison program: pydantic-ai's own AGUIAdapter on Starlette, nothing stored, nobody authenticated.

Serve `tests.bare:application` with any ASGI server; POST a RunAgentInput to `/`. BARE_AGENT names the agent, or a
callable without arguments that makes one, as `package.module:name`.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pkgutil import resolve_name
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

CITIES = ("Oslo", "Rome")


async def forecast(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaThinkingCalls | DeltaToolCalls]:
    """Reason, call `temperature` for two cities at once, then report.

    After a few words fail when the prompt is "fail", and say nothing more when it is "wait".
    """
    prompts = [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    latest = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if latest:
        for part in latest:
            yield f"It is {part.content}. "
        yield f"Turn {len(prompts)}."
    elif prompts[-1] == "fail":
        yield "About to "
        raise RuntimeError("the model gave up")
    elif prompts[-1] == "wait":
        yield "Waiting "
        await asyncio.Event().wait()
    else:
        for word in ("Two ", "cities, ", "two ", "calls."):
            yield {0: DeltaThinkingPart(content=word)}
        for index, city in enumerate(CITIES, start=1):
            yield {index: DeltaToolCall(name="temperature", tool_call_id=f"call-{len(prompts)}-{city}")}
            first, rest = json.dumps({"city": city}).split(" ")
            yield {index: DeltaToolCall(json_args=first)}
            yield {index: DeltaToolCall(json_args=rest)}


def forecast_agent() -> Agent[None, str]:
    """Return an agent that needs no network."""
    agent = Agent(FunctionModel(stream_function=forecast), output_type=str)

    @agent.tool_plain
    async def temperature(city: str) -> str:
        return f"{len(city)} degrees in {city}"

    return agent


def run_input(*messages: str, run_id: str = "run-1", thread_id: str = "thread-1") -> dict[str, Any]:
    """Return a RunAgentInput with these user messages."""
    return {
        "threadId": thread_id,
        "runId": run_id,
        "messages": [{"id": f"u{index}", "role": "user", "content": text} for index, text in enumerate(messages)],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


def create_application(agent: Agent[Any, Any] | Callable[[], Agent[Any, Any]]) -> Starlette:
    """Return an ASGI application that runs `agent` at `/`."""
    runnable = agent if isinstance(agent, Agent) else agent()

    async def run(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=runnable)

    return Starlette(routes=[Route("/", run, methods=["POST"])])


application = create_application(resolve_name(os.environ.get("BARE_AGENT", f"{__name__}:forecast_agent")))
