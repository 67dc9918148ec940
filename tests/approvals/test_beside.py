"""Calls that nobody has to approve, in the response that also has some which somebody has to."""

import pytest

from django_pydantic_agent.contrib.store.models import ToolEffect
from tests.api.posting import events, user_message
from tests.approvals.agent import DONE, model
from tests.approvals.client import Asker, approve, deny
from tests.approvals.test_answers import TOOLS

pytestmark = pytest.mark.usefixtures("in_background")

FREE = pytest.mark.parametrize("tool", ["look", "look_async"])


def told() -> list[tuple[str, str]]:
    """Return tool and content of each result that the model was told of in its last request."""
    parts = [part for message in model.requests[-1] for part in message.parts if part.part_kind == "tool-return"]
    return sorted((part.tool_name, part.content) for part in parts)


@FREE
@pytest.mark.parametrize("order", ["erase 7, {}", "{}, erase 7"])
def test_a_free_call_is_made_once_before_the_answer_and_the_other_once_behind_it(asker: Asker, tool: str, order: str):
    (interrupt,) = asker.ask(order.format(tool), run_id="r1")
    assert [tool] == DONE
    asker.answer(approve(interrupt), run_id="r2")
    assert (DONE, told()) == ([tool, 7], [("erase", "erased 7"), (tool, "seen")])
    results = [message["content"] for message in asker.messages if message["role"] == "tool"]
    assert sorted(results) == ["erased 7", "seen"]
    if asker.mount != "/plain/":
        assert sorted(ToolEffect.objects.values_list("tool_name", "status")) == [
            ("erase", "completed"),
            (tool, "completed"),
        ]


@FREE
def test_a_free_call_is_not_made_again_where_the_other_is_denied_or_given_up(asker: Asker, tool: str):
    (interrupt,) = asker.ask(f"erase 7, {tool}")
    asker.answer(deny(interrupt, reason="not that one"))
    assert (DONE, told()) == ([tool], [("erase", "not that one"), (tool, "seen")])
    asker.ask(f"erase 8, {tool}")
    asker.say("hello")
    assert [tool, tool] == DONE


def test_two_approvals_and_a_frontend_result_are_one_answer(asker: Asker):
    asker.messages.append(user_message("erase 1, ask, erase 2, look"))
    asker.apply(events(asker.send(tools=TOOLS, run_id="r1")))
    one, two = sorted(asker.run("r1")["interrupts"], key=lambda interrupt: interrupt["message"])
    (call,) = [call["id"] for call in asker.messages[-2]["toolCalls"] if call["function"]["name"] == "ask"]
    assert DONE == ["look"]
    assert asker.refused(approve(one), approve(two), tools=TOOLS) == (422, "answers_missing", [call])
    result = {"id": "tool-1", "role": "tool", "toolCallId": call, "content": "blue"}
    asker.messages.append(result)
    assert asker.refused(approve(one), tools=TOOLS) == (422, "answers_missing", [two["id"]])
    asker.answer(deny(two), approve(one), tools=TOOLS)
    assert DONE == ["look", 1]
    assert [(tool, content) for tool, content in told() if tool != "erase"] == [("ask", "blue"), ("look", "seen")]
    assert ("erase", "erased 1") in told()
    assert asker.messages[-1]["content"] == "done"
