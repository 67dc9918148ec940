"""Models that follow a script instead of asking a network."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)

Delta: TypeAlias = str | DeltaThinkingCalls | DeltaToolCalls


@dataclass(frozen=True, slots=True)
class Text:
    """Say `text` in deltas of `chunk` characters, or as one where `chunk` is 0."""

    text: str
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Think `text` in deltas of `chunk` characters, or as one where `chunk` is 0."""

    text: str
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call tool `name`; several in one turn are parallel.

    The JSON of `args` goes out in deltas of `chunk` characters; args that are a string go out as they are. `id`
    defaults to `call-<responses before>-<place in the turn>`.
    """

    name: str
    args: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    chunk: int = 0

    @property
    def json(self) -> str:
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


@dataclass(frozen=True, slots=True)
class Failure:
    """Raise `error`, as a provider would in the middle of its answer."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for `seconds`."""

    seconds: float


class Gate:
    """A place where a model or a tool waits until somebody opens it, from any thread or loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached = threading.Event()
        self._opened: Future[None] = Future()

    def open(self) -> None:
        """Let everybody who waits here, or arrives later, go on."""
        with self._lock:
            if not self._opened.done():
                self._opened.set_result(None)

    def wait_reached(self, timeout: float = 30.0) -> None:
        """Block until somebody has arrived; raises `TimeoutError` after `timeout` seconds."""
        if not self._reached.wait(timeout):
            raise TimeoutError("nobody arrived at the gate")

    async def arrive(self) -> None:
        """Wait until the gate is open."""
        self._reached.set()
        await asyncio.shield(asyncio.wrap_future(self._opened))

    def arrive_blocking(self, timeout: float = 30.0) -> None:
        """Block the calling thread until the gate is open; raises `TimeoutError` after `timeout` seconds."""
        self._reached.set()
        self._opened.result(timeout)


class Gates(dict[str, Gate]):
    """Gates by name, each made when it is first asked for, from whatever thread."""

    def __missing__(self, name: str) -> Gate:
        return self.setdefault(name, Gate())


Step: TypeAlias = Text | Reasoning | ToolCall | Failure | Pause | Gate
Steps: TypeAlias = Sequence[Step | str]
Turn: TypeAlias = Steps | Callable[[list[ModelMessage]], Steps]
Script: TypeAlias = Sequence[Turn] | Callable[[str], Sequence[Turn]]


class ScriptedModel(FunctionModel):
    """Answer each user prompt with the turns of `script`: one turn for each model request until the next prompt.

    A script may be a callable of the latest prompt, a turn one of the messages so far. A string stands for `Text`.
    `delay` is the pause between two deltas, in seconds. `requests` keeps what the last 100 requests contained.
    """

    def __init__(self, script: Script, *, delay: float = 0.0, model_name: str = "scripted") -> None:
        super().__init__(self._answer, stream_function=self._stream, model_name=model_name)
        self.script = script
        self.delay = delay
        self.requests: deque[list[ModelMessage]] = deque(maxlen=100)

    def _steps(self, messages: list[ModelMessage]) -> list[Step]:
        self.requests.append(list(messages))
        prompt, turn = _position(messages)
        turns = self.script(prompt) if callable(self.script) else self.script
        if turn >= len(turns):
            raise AssertionError(f"the script has {len(turns)} turns, and turn {turn + 1} was asked for")
        found = turns[turn]
        written = found(messages) if callable(found) else found
        steps = [Text(step) if isinstance(step, str) else step for step in written]
        _check_one_text(steps)
        return steps

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Delta]:
        first = True
        for step, deltas in _deltas(self._steps(messages), messages):
            await _act(step)
            for delta in deltas:
                if self.delay and not first:
                    await asyncio.sleep(self.delay)
                first = False
                yield delta

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts: list[ModelResponsePart] = []
        for index, step in enumerate(self._steps(messages)):
            await _act(step)
            match step:
                case Text(text):
                    parts.append(TextPart(text))
                case Reasoning(text):
                    parts.append(ThinkingPart(text))
                case ToolCall():
                    parts.append(ToolCallPart(step.name, step.json, tool_call_id=_call_id(step, index, messages)))
        return ModelResponse(parts=parts)


def _position(messages: list[ModelMessage]) -> tuple[str, int]:
    """Return the latest user prompt and how many responses it has had."""
    responses = 0
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            responses += 1
            continue
        for part in reversed(message.parts):
            if isinstance(part, UserPromptPart):
                content = part.content if isinstance(part.content, str) else " ".join(map(str, part.content))
                return content, responses
    return "", responses


def _deltas(steps: list[Step], messages: list[ModelMessage]) -> list[tuple[Step, list[Delta]]]:
    spelled: list[tuple[Step, list[Delta]]] = []
    for index, step in enumerate(steps):
        deltas: list[Delta] = []
        match step:
            case Text(text, chunk):
                deltas.extend(_pieces(text, chunk))
            case Reasoning(text, chunk):
                deltas.extend({index: DeltaThinkingPart(content=piece)} for piece in _pieces(text, chunk))
            case ToolCall(name, chunk=chunk):
                deltas.append({index: DeltaToolCall(name=name, tool_call_id=_call_id(step, index, messages))})
                deltas.extend({index: DeltaToolCall(json_args=piece)} for piece in _pieces(step.json, chunk))
        spelled.append((step, deltas))
    return spelled


def _pieces(text: str, chunk: int) -> list[str]:
    return [text[start : start + chunk] for start in range(0, len(text), chunk)] if chunk else [text]


def _call_id(call: ToolCall, index: int, messages: list[ModelMessage]) -> str:
    if call.id is not None:
        return call.id
    return f"call-{sum(not isinstance(message, ModelRequest) for message in messages)}-{index}"


def _check_one_text(steps: list[Step]) -> None:
    kinds = [type(step) for step in steps if isinstance(step, Text | Reasoning | ToolCall)]
    texts = [index for index, kind in enumerate(kinds) if kind is Text]
    if texts and len(texts) != texts[-1] - texts[0] + 1:
        raise AssertionError("the texts of one turn must follow each other: a response is streamed with one text part")


async def _act(step: Step) -> None:
    match step:
        case Failure(error):
            raise error
        case Pause(seconds):
            await asyncio.sleep(seconds)
        case Gate():
            await step.arrive()
