"""What a person decides is done once, with the server's own arguments, whatever the mount keeps."""

import pytest
from django.test import Client

from django_pydantic_agent.contrib.store.models import Interrupt, Thread
from tests.api.posting import events, user_message
from tests.api.tabs import fresh
from tests.approvals.agent import BIG, DONE, model
from tests.approvals.client import Asker, approve, cancel, decide, deny


def results(found):
    return {event["toolCallId"]: event["content"] for event in found if event["type"] == "TOOL_CALL_RESULT"}


def test_an_approved_tool_runs_in_the_answering_run(asker: Asker):
    (interrupt,) = asker.ask("erase 7 call-7", run_id="r1")
    assert (interrupt["toolCallId"], interrupt["reason"]) == ("call-7", "tool_call")
    assert "expiresAt" not in interrupt
    assert (DONE, asker.run("r1")["status"]) == ([], "interrupted")
    found = asker.answer(approve(interrupt), run_id="r2")
    assert results(found) == {"call-7": "erased 7"}
    assert found[0]["parentRunId"] == "r1"
    assert asker.messages[-1]["content"] == "done"
    assert DONE == [7]
    assert (asker.run("r1")["status"], asker.run("r1")["interrupts"], asker.run("r2")["status"]) == (
        "interrupted",
        [],
        "finished",
    )


def test_a_denied_tool_does_not_run_and_the_model_hears_why(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    found = asker.answer(deny(interrupt, reason="not that one"))
    assert list(results(found).values()) == ["not that one"]
    assert (DONE, found[-1]["outcome"]["type"]) == ([], "success")


def test_a_cancelled_interrupt_goes_on_without_the_tool(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    assert "cancelled" in str(results(asker.answer(cancel(interrupt))))
    assert (DONE, asker.messages[-1]["content"]) == ([], "done")


def test_C13_the_arguments_that_run_are_the_servers_digit_for_digit(asker: Asker):
    (interrupt,) = asker.ask("erase", run_id="r1")
    assert str(BIG) in interrupt["message"]
    for message in asker.messages:
        for call in message.get("toolCalls") or ():
            call["function"]["arguments"] = '{"order_id": 2512292042121000000}'
    asker.answer(approve(interrupt, editedArgs={"order_id": float(BIG)}))
    assert DONE == [BIG]


def test_C13_the_ledger_and_the_card_show_the_exact_digits(talk: Asker):
    (interrupt,) = talk.ask("erase", run_id="r1")
    assert str(BIG) in talk.run("r1")["interrupts"][0]["message"]
    row = Interrupt.objects.get()
    assert (row.arguments, row.tool_name, row.decision) == (f'{{"order_id": {BIG}}}', "erase", "pending")
    assert str(BIG) in row.message
    talk.answer(approve(interrupt))
    row.refresh_from_db()
    assert (row.decision, row.decider[:5], row.decided_at is not None) == ("approved", "user:", True)


def test_edited_arguments_run_where_the_tool_takes_them(asker: Asker):
    (interrupt,) = asker.ask("rate")
    assert asker.refused(approve(interrupt, editedArgs={"values": "many", "note": "n"}))[:2] == (422, "invalid_answer")
    assert asker.refused(approve(interrupt, editedArgs={"values": [1]}))[:2] == (422, "invalid_answer")
    assert asker.refused(approve(interrupt, editedArgs={"values": [1], "note": "n", "more": 1}))[0] == 422
    asker.answer(approve(interrupt, editedArgs={"values": [1.0, 3], "note": "other"}))
    assert DONE == [([1, 3], "other")]


@pytest.mark.parametrize(
    "payload", [None, {}, [], "yes", {"approved": "yes"}, {"approved": 1}, {"approved": True, "editedArgs": 3}]
)
def test_C18_a_malformed_answer_is_refused_and_a_right_one_still_works(asker: Asker, payload: object):
    (interrupt,) = asker.ask("erase 7", run_id=(asking := fresh("r")))
    assert asker.refused(decide(interrupt, payload)) == (422, "invalid_answer", [])
    assert asker.run(asking)["pending_interrupts"] == 1
    asker.answer(approve(interrupt))
    assert DONE == [7]


def test_C18_several_interrupts_are_answered_together_and_each_tool_runs_once(asker: Asker):
    one, two = asker.ask("erase 1 a, look, erase 2 b", run_id="r1")
    assert DONE == ["look"]
    assert asker.refused(approve(one)) == (422, "answers_missing", [two["id"]])
    assert asker.refused(approve(two), approve({"id": "other"})) == (422, "unknown_interrupt", [])
    assert asker.refused(approve(one), deny(one)) == (422, "invalid_answer", [])
    assert asker.run("r1")["pending_interrupts"] == 2
    found = asker.answer(approve(two), deny(one))
    assert set(results(found)) == {"a", "b"}
    assert (DONE, asker.messages[-1]["content"]) == (["look", 2], "done")
    assert [message["toolCallId"] for message in asker.messages if message["role"] == "tool"].count("b") == 1


def test_C18_interrupts_of_another_thread_are_unknown(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    other = Asker(asker.client, asker.mount, "t2")
    (second,) = other.ask("erase 8")
    assert other.refused(approve(interrupt)) == (422, "unknown_interrupt", [])
    assert other.refused(approve(second), approve(interrupt)) == (422, "unknown_interrupt", [])
    other.answer(approve(second))
    asker.answer(approve(interrupt))
    assert DONE == [8, 7]


def test_C26_nobody_else_can_answer(asker: Asker, stranger: Client):
    (interrupt,) = asker.ask("erase 7")
    assert Asker(stranger, asker.mount).refused(approve(interrupt)) == (422, "unknown_interrupt", [])
    assert DONE == []


@pytest.mark.parametrize("mount", ["talk", "strict", "bare", "plain"])
@pytest.mark.parametrize("own", ["talk", "bare"])
def test_what_a_run_asks_is_answered_at_its_own_mount_only(client: Client, own: str, mount: str):
    asker = Asker(client, f"/{own}/")
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    elsewhere = Asker(client, f"/{mount}/")
    for entry in (approve(interrupt), cancel(interrupt)) if mount != own else ():
        assert elsewhere.refused(entry) == (422, "unknown_interrupt", [])
    asker.answer(approve(interrupt))
    assert DONE == [7]


def test_a_new_message_at_another_mount_gives_up_nothing(client: Client):
    asker = Asker(client, "/bare/")
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    assert Asker(client, "/plain/").say("hello")[-1]["outcome"]["type"] == "success"
    asker.answer(approve(interrupt))
    assert DONE == [7]


def test_C17_an_equal_answer_shows_the_run_that_has_it_and_another_one_is_refused(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    asker.answer(approve(interrupt), run_id="r2")
    for _ in range(3):
        again = asker.copy().take(asker.send(resume=[approve(interrupt)]))
        assert (again[0]["runId"], again[-1]["type"]) == ("r2", "RUN_FINISHED")
    assert asker.refused(deny(interrupt)) == (409, "already_decided", [])
    assert asker.refused(cancel(interrupt)) == (409, "already_decided", [])
    assert asker.refused(approve(interrupt, editedArgs={"order_id": 8})) == (409, "already_decided", [])
    assert DONE == [7]


def test_C17_an_answer_is_repeated_with_equal_doubles_and_not_with_true_for_one(asker: Asker):
    def edited(*values: object) -> dict[str, object]:
        return approve(interrupt, editedArgs={"values": values, "note": "n"})

    (interrupt,) = asker.ask("rate")
    asker.answer(edited(1, 2.0), run_id="r2")
    for values in ([1.0, 2], [1, 2.0]):
        again = asker.copy().take(asker.send(resume=[edited(*values)]))
        assert again[0]["runId"] == "r2"
    for values in ([True, 2.0], [1], [1, 2, 3]):
        assert asker.refused(edited(*values))[:2] == (409, "already_decided")
    assert DONE == [([1, 2], "n")]


def test_C17_what_was_denied_is_not_approved_later(asker: Asker):
    (interrupt,) = asker.ask("erase 7")
    asker.answer(deny(interrupt))
    assert asker.refused(approve(interrupt)) == (409, "already_decided", [])
    assert DONE == []


def test_C17_an_approved_tool_does_not_run_again_on_a_later_turn(talk: Asker):
    (interrupt,) = talk.ask("erase 7")
    talk.answer(approve(interrupt))
    assert talk.say("hello")[-1]["outcome"]["type"] == "success"
    assert (DONE, talk.stored()["interrupts"]) == ([7], [])
    assert talk.copy().say("hello")[-1]["outcome"]["type"] == "success"
    assert DONE == [7]


def test_a_second_interrupt_in_the_answering_run_is_answered_too(asker: Asker):
    (first,) = asker.ask("erase 1 same; look; erase 2 same", run_id="r1")
    found = asker.answer(approve(first), run_id="r2")
    (second,) = found[-1]["outcome"]["interrupts"]
    assert (first["toolCallId"], second["toolCallId"]) == ("same", "same~2")
    assert asker.run("r2")["pending_interrupts"] == 1
    assert results(asker.answer(approve(second))) == {"same~2": "erased 2"}
    assert (DONE, asker.messages[-1]["content"]) == ([1, "look", 2], "done")


TOOLS = [{"name": "ask", "description": "Ask.", "parameters": {"type": "object", "properties": {}}}]


def test_results_of_frontend_tools_belong_to_the_answer(asker: Asker):
    asker.messages.append(user_message("erase 7, ask"))
    asker.apply(events(asker.send(tools=TOOLS, run_id="r1")))
    (interrupt,) = asker.run("r1")["interrupts"]
    (call,) = [call["id"] for call in asker.messages[-1]["toolCalls"] if call["function"]["name"] == "ask"]
    assert asker.refused(approve(interrupt), tools=TOOLS) == (422, "answers_missing", [call])
    asker.messages.append({"id": "tool-1", "role": "tool", "toolCallId": call, "content": "blue"})
    asker.answer(approve(interrupt), tools=TOOLS)
    assert (DONE, asker.messages[-1]["content"]) == ([7], "done")
    heard = [part for part in model.requests[-1][-1].parts if part.part_kind == "tool-return"]
    assert {part.tool_name: part.content for part in heard} == {"ask": "blue", "erase": "erased 7"}


def test_an_answer_may_come_with_a_new_message(talk: Asker):
    (interrupt,) = talk.ask("erase 7")
    talk.messages.append({"id": "next", "role": "user", "content": "hello"})
    talk.answer(approve(interrupt))
    assert (DONE, talk.messages[-1]["content"]) == ([7], "hi")
    assert talk.say("hello")[-1]["outcome"]["type"] == "success"


def test_a_new_message_gives_up_what_is_open(asker: Asker):
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    assert asker.say("hello")[-1]["outcome"]["type"] == "success"
    assert asker.run("r1")["interrupts"] == []
    assert asker.refused(approve(interrupt)) == (409, "already_decided", [])
    assert DONE == []


def test_the_model_is_told_that_a_call_was_given_up(talk: Asker):
    talk.ask("erase 7 call-7")
    talk.say("hello")
    returned = [part for m in model.requests[-1] for part in m.parts if part.part_kind == "tool-return"]
    assert [part.tool_call_id for part in returned] == ["call-7"]


@pytest.mark.parametrize("verb", ["resume", "fork"])
@pytest.mark.parametrize("mount", ["talk", "bare"])
def test_the_routes_that_continue_a_run_take_answers_to_it(client: Client, mount: str, verb: str):
    asker = Asker(client, f"/{mount}/")
    asker.say("hello", run_id="r0")
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    for run_id, status, code in [("r0", 422, "unknown_interrupt"), ("gone", 404, "not_found")]:
        response = asker.send(resume=[approve(interrupt)], url=asker.url_of(verb, run_id))
        assert (response.status_code, response.json()["code"]) == (status, code)
    elsewhere = Asker(client, asker.mount, "t2")
    response = elsewhere.send(resume=[approve(interrupt)], url=asker.url_of(verb, "r1"))
    assert (response.status_code, response.json()["code"]) == (422, "unknown_interrupt")
    asker.take(asker.send(resume=[approve(interrupt)], url=asker.url_of(verb, "r1")))
    assert (DONE, asker.messages[-1]["content"]) == ([7], "done")


def test_cancelling_an_interrupted_run_cancels_what_it_has_asked_and_nothing_else(asker: Asker):
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    for _ in range(2):
        response = asker.client.post(f"{asker.mount}runs/r1/cancel/")
        body = response.json()
        assert (response.status_code, body["status"], body["interrupts"]) == (200, "interrupted", [])
    assert asker.refused(approve(interrupt)) == (409, "already_decided", [])
    assert asker.say("hello")[-1]["outcome"]["type"] == "success"
    assert DONE == []


@pytest.mark.parametrize("mount", ["bare", "plain"])
def test_cancelling_at_a_mount_without_threads_ends_the_wait_of_the_thread(talk: Asker, mount: str):
    talk.ask("erase 7", run_id="r1")
    assert talk.client.post(f"/{mount}/runs/r1/cancel/").json()["interrupts"] == []
    assert talk.stored()["interrupts"] == []
    assert Thread.objects.get().waiting_run is None
