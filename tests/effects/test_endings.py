"""Each way in which a tool call can end."""

import pytest
from asgiref.sync import async_to_sync
from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import StepEvent, ToolEffect
from django_pydantic_agent.runs.states import RunStatus
from tests.effects.agent import ACTED, GATES, NUMBER, SECRET, model
from tests.effects.turns import ledger, say, status
from tests.store.factories import request_of
from tests.waiting import eventually

# How the call ends: its effect, the run's status, and whether the model is told of the call.
ENDINGS = {
    "returned": (("completed", ""), RunStatus.FINISHED, True),
    "raised": (("failed", ""), RunStatus.FAILED, False),
    "retried": (("failed", ""), RunStatus.FINISHED, True),
    "refused": (("failed", ""), RunStatus.FINISHED, True),
    "timeout": (("started", "timeout"), RunStatus.FINISHED, True),
    "approval": (("failed", ""), RunStatus.INTERRUPTED, False),
    "deferred": (("failed", ""), RunStatus.FINISHED, False),
    "cancelled": (("started", "cancel"), RunStatus.CANCELLED, False),
}


@pytest.mark.parametrize("pair", [False, True], ids=["alone", "pair"])
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("how", ENDINGS)
def test_a_call_that_ends_so_is_settled_and_the_thread_goes_on(client, user, how, kind, pair):
    effect, ended, told = ENDINGS[how]
    tool = ("hurry" if how == "timeout" else "act") + ("_sync" if kind == "sync" else "")
    call = f"{tool}-{how}"
    events = say(client, f"{tool} {how}" + (" + pay also" if pair else ""))

    assert status() == ended
    assert ledger()[call] == effect
    if pair:
        # Beside a call that ends the run it may not have begun, or go on in its thread for a while.
        ends = {None, ("completed", ""), ("failed" if how in ("raised", "cancelled") else "completed", "")}
        eventually(lambda: ledger().get("pay-also") in ends)
    results = {event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"}
    assert (call in results) == (ended is not RunStatus.INTERRUPTED and how != "deferred")
    kinds = list(StepEvent.objects.filter(tool_call_id=call).order_by("pk").values_list("kind", flat=True))
    assert kinds == ["tool_call_started", *(f"tool_call_{state}" for state in effect[:1] if state != "started")]

    newest = snapshots(user)[-1]
    parts = [part for message in newest.messages for part in message.parts]
    assert call in {part.tool_call_id for part in parts if isinstance(part, ToolCallPart)}
    assert (call in {part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)}) == told
    assert newest.state == ("complete" if told else "interrupted")

    if kind == "sync" and effect[0] == "started":
        GATES[how].open()
        eventually(lambda: ledger()[call] == ("completed", ""))
        assert [how] == ACTED
    assert say(client, "hello", number=2)[-1]["type"] == "RUN_FINISHED"
    assert status("r2") == RunStatus.FINISHED
    assert "echo hello" in str(client.get("/talk/threads/t/").json()["messages"][-1])


def snapshots(user):
    return async_to_sync(DefaultStepStore(request_of(user)).list_snapshots)(run_id="r1", include_interrupted=True)


def test_a_sync_call_that_goes_on_after_a_timeout_is_settled_while_its_run_goes_on(client):
    say(client, "hurry_sync timeout + act_sync returned")
    assert ledger() == {"hurry_sync-timeout": ("started", "timeout"), "act_sync-returned": ("completed", "")}
    GATES["timeout"].open()
    eventually(lambda: ledger()["hurry_sync-timeout"] == ("completed", ""))
    row = ToolEffect.objects.get(tool_call_id="hurry_sync-timeout")
    assert (row.arguments, row.result) == ('{"how":"timeout"}', '"timeout"')


def test_C13_the_ledger_shows_arguments_and_result_with_all_digits_and_without_secrets(client):
    say(client, "pay now")
    row = ToolEffect.objects.get()
    assert row.arguments == f'{{"how":"now","order":{NUMBER},"api_key":"[redacted]"}}'
    assert row.result == (
        f'{{"order":{NUMBER},"headers":[{{"Authorization":"[redacted]"}}],"accessToken":"[redacted]","paid":"now"}}'
    )
    assert SECRET not in str(ToolEffect.objects.values())


def test_a_tool_annotates_its_effect_through_the_step_store_of_its_dependencies(client, user):
    say(client, "noted it")
    row = ToolEffect.objects.get()
    assert (row.status, row.idempotency_key, row.effect_summary) == ("completed", "key", "sent it")
    assert row.arguments == '{"how":"it"}'
    assert async_to_sync(DefaultStepStore(request_of(user)).list_unresolved_tool_effects)(run_id="r1") == []


@pytest.mark.parametrize("tool", ["ask", "ask_stock"])
@pytest.mark.parametrize("how", ["returned", "retried", "refused", "timeout"])
def test_the_calls_of_a_delegate_are_settled_too(client, tool, how):
    say(client, f"{tool} {how}")
    assert ledger() == {f"{tool}-{how}": ("completed", "")}
    inner = ToolEffect.objects.get(tool_call_id="inner")
    assert (inner.status, inner.reason) == ENDINGS[how][0]


@pytest.mark.parametrize("tool", ["ask", "ask_stock"])
def test_the_calls_of_a_delegate_are_cancelled_with_its_run(client, tool):
    say(client, f"{tool} cancelled")
    assert {*ToolEffect.objects.values_list("status", "reason")} == {("started", "cancel")}
    assert ToolEffect.objects.count() == 2


@pytest.mark.parametrize("how", ["returned", "raised", "retried", "refused", "approval", "deferred"])
def test_a_step_store_of_another_kind_has_each_call_settled(client, how):
    say(client, f"act {how}", mount="foreign")
    assert client.get("/foreign/runs/r1/effects/").json() == {"effects": []}
    assert model.requests
