import pytest
from ag_ui.core import UserMessage

from django_pydantic_agent.runs.states import LIVE, RunStatus
from django_pydantic_agent.threads.posture import TurnState, message_digest, turn_state


def text(content, **fields):
    return {"type": "text", "text": content, **fields}


def image(value, **fields):
    return {"type": "image", "source": {"type": "url", "value": value, **fields}}


def digest(content, **fields):
    return message_digest(UserMessage.model_validate({"id": "u1", "role": "user", "content": content, **fields}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hello", [text("hello")]),
        ("hello", [text("hel"), text("lo")]),
        ("hello", [text("hello"), text("")]),
        ("", []),
        ([text("a"), image("x")], [text("a", id="p1", metadata={"k": 1}), image("x", mimeType="image/png")]),
        ([image("x")], [image("x") | {"metadata": {"filename": "x.png"}, "id": "p1"}]),
        ("nul \0", "nul \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_clients_add_and_lose_on_the_way_is_no_edit(one, other):
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hello", "hello "),
        ("hello", "Hello"),
        ("hello", []),
        ([image("x")], [image("y")]),
        ([image("x")], [{"type": "document", "source": {"type": "url", "value": "x"}}]),
        ([image("x")], [{"type": "image", "source": {"type": "data", "value": "x", "mimeType": "image/png"}}]),
        ([text("a"), image("x")], [image("x"), text("a")]),
        ([text("a"), image("x"), text("b")], [text("ab"), image("x")]),
        ('["image", "url", "x"]', [image("x")]),
    ],
)
def test_other_text_or_media_or_another_order_is_an_edit(one, other):
    assert digest(one) != digest(other)


def test_the_digest_is_of_the_content_alone():
    assert digest("hello") == digest("hello", name="Ann", metadata={"tanstack": {"createdAt": "2026-01-01"}})
    assert digest("hello") == message_digest(UserMessage(id="other", role="user", content="hello"))
    assert len(digest("hello")) == 64


def test_every_status_of_a_run_is_a_state_of_its_turn():
    states = {status: turn_state(status, waits=False) for status in RunStatus}
    assert {status for status in RunStatus if states[status] is TurnState.LIVE} == LIVE
    assert [status for status in RunStatus if states[status] is TurnState.ANSWERED] == [RunStatus.FINISHED]
    assert {turn_state(status, waits=True) for status in RunStatus if status not in LIVE} == {TurnState.WAITING}
    assert {turn_state(status, waits=True) for status in LIVE} == {TurnState.LIVE}
