"""The agent that both sides run. The prompt is a `Task` as JSON."""

import asyncio
import base64
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

RESULT_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Call the tool `steps` times, wait `wait` seconds, then say `deltas` deltas, `per_second` of them or at once."""

    steps: int = 0
    wait: float = 0.0
    deltas: int = 1
    per_second: float = 0.0

    def prompt(self) -> str:
        return json.dumps(asdict(self))


async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Do what the latest prompt says; each delta is the time at which it was said."""
    task, responses = _task(messages)
    if responses < task.steps:
        yield {0: DeltaToolCall(name="fetch", tool_call_id=f"call-{len(messages)}")}
        yield {0: DeltaToolCall(json_args=json.dumps({"number": responses}))}
        return
    if task.wait:
        await asyncio.sleep(task.wait)
    began = time.monotonic()
    for number in range(task.deltas):
        if task.per_second:
            await asyncio.sleep(began + number / task.per_second - time.monotonic())
        yield f"{time.monotonic():.6f} "


def _task(messages: list[ModelMessage]) -> tuple[Task, int]:
    responses = 0
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            responses += 1
            continue
        for part in message.parts:
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                return Task(**json.loads(part.content)), responses
    raise ValueError("there is no prompt")


agent = Agent(FunctionModel(stream_function=answer), output_type=str)


@agent.tool_plain
async def fetch(number: int) -> str:
    """Return 1 KiB of text that does not compress below three quarters, another one for each number."""
    return base64.b64encode(random.Random(number).randbytes(RESULT_BYTES * 3 // 4)).decode()
