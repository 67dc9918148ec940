import asyncio
import functools
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, ModelRetry, RunContext

from django_pydantic_agent import AgentDeps, ToolRegistry, tool
from django_pydantic_agent.agents.build import (
    build_agent,
    catalog,
    check_frontend_tools,
    check_source,
    is_idempotent,
)
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.testing.models import ScriptedModel, ToolCall


def run(registry: ToolRegistry, *calls: ToolCall, deps: AgentDeps | None = None) -> str:
    """Run the registry's agent, let it make `calls`, and return what the tools gave back."""

    def results(messages):
        return [" ".join(str(part.content) for part in messages[-1].parts)]

    agent = build_agent(registry)
    return asyncio.run(agent.run("go", model=ScriptedModel([calls, results]), deps=deps or AgentDeps())).output


def test_a_decorated_function_is_a_tool_and_stays_a_function():
    registry = ToolRegistry()

    @registry.tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    assert double(4) == 8
    assert run(registry, ToolCall("double", {"number": 21})) == "42"
    assert "double" in registry
    assert list(registry) == ["double"]


def test_options_reach_the_agent():
    registry = ToolRegistry()

    @registry.tool(name="send-mail", description="Send it.", requires_approval=True, retries=4, timeout=2.5)
    def mail(to: str) -> str:
        """Unseen."""
        return to

    (toolset,) = (toolset for toolset in build_agent(registry).toolsets if "send-mail" in getattr(toolset, "tools", {}))
    built = toolset.tools["send-mail"]
    assert built.description == "Send it."
    assert built.requires_approval is True
    assert built.max_retries == 4
    assert built.timeout == 2.5


def test_the_retries_of_a_tool_count_what_the_model_may_correct():
    registry = ToolRegistry()
    calls = []

    @registry.tool(retries=2)
    def fussy(word: str) -> str:
        calls.append(word)
        if len(calls) < 3:
            raise ModelRetry("again")
        return word

    script = [[ToolCall("fussy", {"word": "a"})]] * 3 + [["done"]]
    assert asyncio.run(build_agent(registry).run("go", model=ScriptedModel(script))).output == "done"
    assert len(calls) == 3


def test_functions_marked_elsewhere_are_added_with_their_options():
    @tool(idempotent=True, name="look")
    def look_up(word: str) -> str:
        return word.upper()

    @tool
    def plain() -> str:
        return "plain"

    registry = ToolRegistry()
    registry.add(look_up)
    registry.add(plain, idempotent=True)
    registry.add(look_up, name="look_again", idempotent=False)
    assert [(entry["name"], entry["idempotent"]) for entry in catalog(registry)] == [
        ("look", True),
        ("plain", True),
        ("look_again", False),
    ]
    assert run(registry, ToolCall("look", {"word": "a"}), ToolCall("plain")) == "A plain"


def test_a_first_parameter_annotated_with_the_context_gets_it():
    registry = ToolRegistry()

    @registry.tool
    def thread(ctx: RunContext[AgentDeps], prefix: str) -> str:
        return f"{prefix}{ctx.deps.thread_id}"

    assert run(registry, ToolCall("thread", {"prefix": "in "}), deps=AgentDeps(thread_id="t1")) == "in t1"
    assert "ctx" not in catalog(registry)[0]["parameters"]["properties"]


def test_the_context_may_be_named_by_a_module_that_does_not_import_pydantic_ai():
    namespace: dict[str, Any] = {}
    source = (
        "from __future__ import annotations\n"
        "def thread(ctx: RunContext[AgentDeps], times: int) -> str:\n"
        "    return ctx.deps.thread_id * times\n"
        "async def later(ctx: RunContext[AgentDeps]) -> str:\n"
        "    return 'later'\n"
        "class Desk:\n"
        "    def sign(self, ctx: RunContext) -> str:\n"
        "        return ctx.deps.run_id\n"
    )
    exec(source, namespace)  # noqa: S102
    registry = ToolRegistry()
    registry.add(namespace["thread"])
    registry.add(namespace["later"])
    registry.add(namespace["Desk"]().sign)
    calls = [ToolCall("thread", {"times": 2}), ToolCall("later"), ToolCall("sign")]
    assert run(registry, *calls, deps=AgentDeps(thread_id="ab", run_id="r1")) == "abab later r1"


def test_an_annotation_that_nobody_knows_is_named():
    namespace: dict[str, Any] = {}
    exec("def lost(thing: 'Nowhere') -> str: ...", namespace)  # noqa: S102
    registry = ToolRegistry()
    registry.add(namespace["lost"])
    with pytest.raises(NameError, match="Nowhere"):
        build_agent(registry)


def test_async_functions_and_methods_are_tools():
    class Greeter:
        greeting = "hello"

        async def greet(self, name: str) -> str:
            return f"{self.greeting} {name}"

        def wave(self, ctx: "RunContext[AgentDeps]") -> str:
            return f"waves in {ctx.deps.run_id}"

    registry = ToolRegistry()
    registry.add(Greeter().greet)
    registry.add(Greeter().wave)
    calls = [ToolCall("greet", {"name": "Ada"}), ToolCall("wave")]
    assert run(registry, *calls, deps=AgentDeps(run_id="r1")) == "hello Ada waves in r1"


@pytest.mark.parametrize("name", ["", "two words", "dotted.name", "grüße", "a" * 65, "line\n"])
def test_a_name_that_models_refuse_is_refused(name):
    with pytest.raises(ValueError, match="cannot name a tool"):
        ToolRegistry().add(lambda: None, name=name or "<lambda>")


def test_a_taken_name_is_refused_and_the_first_tool_stays():
    registry = ToolRegistry("shop")

    @registry.tool
    def price() -> str:
        return "first"

    with pytest.raises(ValueError, match="registry 'shop' already has a tool 'price'"):
        registry.add(lambda: "second", name="price")
    assert run(registry, ToolCall("price")) == "first"


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="a tool must be a function or a method, not 'price'"):
        ToolRegistry().tool("price")
    with pytest.raises(TypeError, match="takes its options by keyword, not 'price'"):
        tool("price")
    with pytest.raises(TypeError, match="unexpected keyword argument 'retrys'"):
        ToolRegistry().tool(retrys=3)(print)


def test_the_agent_is_built_once_and_again_after_a_tool_was_added():
    registry = ToolRegistry("shop", instructions="Sell.")
    registry.add(lambda: "a", name="first")
    agent = build_agent(registry)
    assert build_agent(registry) is agent
    registry.add(lambda: "b", name="second")
    assert build_agent(registry) is not agent
    assert run(registry, ToolCall("second")) == "b"
    assert build_agent(registry).name == "shop"


def test_a_model_name_needs_no_key_before_the_first_run():
    assert catalog(ToolRegistry(model="openai:gpt-5.2")) == []


def test_an_agent_and_a_callable_are_sources_too():
    agent: Agent[None, str] = Agent()

    @agent.tool_plain(metadata={"idempotent": True}, requires_approval=True)
    def quote(symbol: str) -> str:
        """Quote it."""
        return symbol

    registry = ToolRegistry()
    assert build_agent(agent) is agent
    assert build_agent(lambda: agent) is agent
    assert build_agent(lambda: registry) is build_agent(registry)
    for source in (agent, lambda: agent):
        assert catalog(source) == [
            {
                "name": "quote",
                "description": "Quote it.",
                "parameters": {
                    "type": "object",
                    "properties": {"symbol": {"type": "string"}},
                    "required": ["symbol"],
                    "additionalProperties": False,
                },
                "requires_approval": True,
                "idempotent": True,
            }
        ]
        assert is_idempotent(source, "quote") is True
        assert is_idempotent(source, "other") is False


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("requires_approval", "no"),
        ("idempotent", None),
        ("sequential", 1),
        ("retries", -1),
        ("retries", 1.5),
        ("timeout", 0),
        ("timeout", "30"),
        ("timeout", float("nan")),
        ("timeout", True),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_name(option, value):
    with pytest.raises((TypeError, ValueError), match=option):
        ToolRegistry().add(lambda: None, name="tool", **{option: value})


def test_only_a_declared_tool_is_idempotent():
    registry = ToolRegistry()
    registry.add(lambda: None, name="once")
    registry.add(lambda: None, name="often", idempotent=True)
    assert [is_idempotent(registry, name) for name in ("once", "often", "unknown")] == [False, True, False]


def test_a_frontend_tool_may_not_have_the_name_of_one_of_the_server():
    registry = ToolRegistry()
    registry.add(lambda: None, name="own")
    beside = FunctionToolset()
    beside.add_function(lambda: None, name="beside")
    toolsets = [beside, lambda: FunctionToolset()]
    check_frontend_tools(["other"], registry, toolsets=toolsets)
    for name in ("own", "beside"):
        with pytest.raises(InvalidInput, match=name):
            check_frontend_tools(["other", name], registry, toolsets=toolsets)


async def make_agent() -> ToolRegistry:
    return ToolRegistry()


@pytest.mark.parametrize("source", ["myproject.agent.registry", None, ToolRegistry, Agent, 7, make_agent])
def test_anything_else_is_refused_at_once(source):
    with pytest.raises(TypeError, match="agent must be a "):
        check_source(source)
    with pytest.raises(TypeError, match="agent must be a "):
        build_agent(source)


def test_a_callable_that_returns_something_else_is_named():
    with pytest.raises(TypeError, match=r"int.* must return a ToolRegistry or a pydantic_ai.Agent, not 7"):
        build_agent(functools.partial(int, "7"))
