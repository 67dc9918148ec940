import json

import pytest

from django_pydantic_agent.exceptions import InvalidInput, NothingToRun
from django_pydantic_agent.log.accept import accept_continuation, accept_transcript, accept_turn, check_id, parse_input

USER = {"id": "u1", "role": "user", "content": "one"}
ANSWER = {"id": "a1", "role": "assistant", "content": "answer"}
CALL = {
    "id": "a2",
    "role": "assistant",
    "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "42"}
NEXT = {"id": "u2", "role": "user", "content": "two"}


def posted(*messages, **keys):
    return json.dumps({"threadId": "t", "runId": "r", "messages": messages, **keys}).encode()


def ids(run_input):
    return [message.id for message in run_input.messages]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"threadId":"t"}',
        b'{"threadId":1,"runId":"r","messages":[]}',
        b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"emperor","content":"x"}]}',
        b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user"}]}',
        b'{"threadId":"t","runId":"r","messages":[],"state":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"threadId":"\xff","runId":"r","messages":[]}',
        b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":[{"type":"binary"}]}]}',
        b'{"threadId":"t","runId":"r","messages":[{"content":[{"type":"binary"}],"x":' + b"[" * 100_000 + b"]}",
        b'{"threadId":"t","runId":"r","messages":"binary"}',
    ],
)
def test_a_body_that_is_no_input_is_refused(body):
    with pytest.raises(InvalidInput):
        parse_input(body)


def test_the_refusal_repeats_nothing_of_the_body():
    with pytest.raises(InvalidInput) as refusal:
        parse_input(b'{"threadId":{"secret-marker":1},"runId":"r","messages":[]}')
    assert "secret-marker" not in str(refusal.value)
    assert "threadId" in str(refusal.value)


@pytest.mark.parametrize("value", ["", "x" * 1025, "é" * 513, "a\nb", "a\0b", "a\x1fb", "a\x7fb", "a\x85b", "a\ud800b"])
def test_ids_that_break_the_rule_are_refused(value):
    with pytest.raises(InvalidInput):
        check_id("runId", value)


@pytest.mark.parametrize("value", ["x", "x" * 1024, "é" * 512, "team/a:1 ~", "🦊", "..", "%00"])
def test_ids_that_follow_the_rule_are_taken(value):
    check_id("runId", value)


def test_ids_are_as_the_store_keeps_them():
    call = {**CALL, "toolCalls": [{**CALL["toolCalls"][0], "id": "c\0"}]}
    messages = ({**USER, "id": "u\0", "content": "a\0b"}, call, {**RESULT, "toolCallId": "c\0"})
    resume = [{"interruptId": "i\0", "status": "resolved"}]
    run_input = parse_input(posted(*messages, resume=resume))
    question, asked, result = run_input.messages
    assert (question.id, question.content) == ("u\ufffd", "a\0b")
    assert (asked.tool_calls[0].id, result.tool_call_id) == ("c\ufffd", "c\ufffd")
    assert run_input.resume[0].interrupt_id == "i\ufffd"


def test_a_question_without_content_is_refused_where_it_is_new():
    empty = {**NEXT, "content": []}
    for judge in (
        accept_transcript,
        lambda run_input: accept_continuation(run_input, known_ids={"u1"}, open_end=lambda: False),
        lambda run_input: accept_turn(run_input, run_input.messages[2:]),
    ):
        with pytest.raises(InvalidInput, match="'u2' has no content"):
            judge(parse_input(posted(USER, ANSWER, empty)))
    assert ids(accept_transcript(parse_input(posted({**USER, "content": []}, ANSWER, NEXT)))) == ["u1", "a1", "u2"]


def test_a_transcript_must_end_in_something_to_answer():
    assert ids(accept_transcript(parse_input(posted(USER, ANSWER, NEXT)))) == ["u1", "a1", "u2"]
    assert ids(accept_transcript(parse_input(posted(USER, CALL, RESULT)))) == ["u1", "a2", "t1"]
    for messages in [(), (USER, ANSWER), (USER, CALL), ({"id": "s", "role": "system", "content": "x"},)]:
        with pytest.raises(NothingToRun):
            accept_transcript(parse_input(posted(*messages)))


@pytest.mark.parametrize(
    "message",
    [
        RESULT,
        {
            "id": "1",
            "role": "user",
            "content": [{"type": "image", "source": {"type": "data", "value": "%%%", "mimeType": "image/png"}}],
        },
        {"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "file-1"}}]},
    ],
    ids=["result without its call", "bad base64", "file source"],
)
def test_messages_that_cannot_be_given_to_the_model_are_refused(message):
    with pytest.raises(InvalidInput):
        accept_transcript(parse_input(posted(message)))


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "binary", "mimeType": "image/png", "data": "aGk="}, "image"),
        ({"type": "binary", "mimeType": "audio/wav", "url": "https://example.com/a.wav"}, "audio"),
        ({"type": "binary", "mimeType": "application/pdf", "data": "aGk="}, "document"),
    ],
)
def test_binary_parts_of_older_clients_become_media_parts(part, kind):
    run_input = accept_transcript(parse_input(posted({"id": "1", "role": "user", "content": [part]})))
    assert run_input.messages[0].content[0].type == kind


def continued(*messages, known=(), open_end=False):
    run_input = parse_input(posted(*messages))
    return ids(accept_continuation(run_input, known_ids=set(known), open_end=lambda: open_end))


def test_a_continuation_takes_only_the_user_messages_that_are_new():
    assert continued(NEXT) == ["u2"]
    assert continued(USER, ANSWER, NEXT, known=["u1", "a1"]) == ["u2"]
    assert continued(USER, {**ANSWER, "id": "minted"}, NEXT, known=["u1", "a1"]) == ["u2"]
    assert continued({**USER, "id": "minted"}, {**ANSWER, "id": "minted too"}, NEXT) == ["u2"]
    assert continued({"id": "s", "role": "system", "content": "obey"}, ANSWER, NEXT) == ["u2"]


def test_a_known_message_after_an_unknown_one_means_that_the_unknown_one_is_old():
    with pytest.raises(NothingToRun):
        continued(NEXT, USER, known=["u1"])


def test_a_continuation_without_news_runs_only_where_the_history_waits_for_an_answer():
    assert continued(USER, known=["u1"], open_end=True) == []
    with pytest.raises(NothingToRun):
        continued(USER, known=["u1"])
    with pytest.raises(NothingToRun):
        continued(RESULT)
