"""What the agents say where no model is named: they find their tools in the words of the prompt."""

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from django_pydantic_agent.testing.models import Failure, Reasoning, ScriptedModel, Step, Text, ToolCall, Turn
from example_project.notebook.agent import HEIGHTS


def turns(prompt: str) -> list[Turn]:
    """Return one turn that calls the tools which the prompt asks for, and one that reports."""
    words = prompt.lower()
    tree = next((tree for tree in HEIGHTS if tree in words), "oak")
    if "fail" in words:
        return [
            [Reasoning("This is going to end badly.", 4), Text("I begin, and ", 4), Failure(RuntimeError("no ink"))]
        ]
    calls: list[Step] = []
    if "look" in words or not any(word in words for word in ("measure", "note")):
        calls.append(ToolCall("look_up", {"tree": tree}, chunk=6))
    if "measure" in words:
        calls.append(ToolCall("measure", {"tree": tree}, chunk=6))
    if "note" in words:
        calls.append(ToolCall("write_note", {"text": prompt}, chunk=6))
    names = " and ".join(call.name for call in calls if isinstance(call, ToolCall))
    return [[Reasoning(f"The question is about the {tree}. I use {names}.", 4), *calls], report]


def report(messages: list[ModelMessage]) -> list[Step]:
    """Say what the tools found, and which turn of the conversation this is."""
    prompts = sum(
        isinstance(part, UserPromptPart)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
    )
    results = [str(part.content).removesuffix(".") for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    found = "; ".join(results)
    return [Text(f"Here is what I found: {found}. This was turn {prompts} of our conversation.", 4)]


def plan(prompt: str) -> list[Turn]:
    """Return one turn that asks to plant as many trees as the prompt says, three if it says nothing, and a report."""
    words = prompt.lower().split()
    tree = next((tree for tree in HEIGHTS if tree in prompt.lower()), "oak")
    number = next((int(word) for word in words if word.isdecimal()), 3)
    return [
        [Text(f"I would plant {number} times {tree}. ", 4), ToolCall("plant", {"tree": tree, "number": number})],
        report,
    ]


model = ScriptedModel(turns, delay=0.03)
forester = ScriptedModel(plan, delay=0.03)
