"""What an audit logger is told of the calls of delegates."""

from dataclasses import replace
from typing import Any

import pytest

from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.runs.engine import stop_engine
from tests.effects.turns import say
from tests.effects.urls import talk


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(talk, "agent_config", replace(talk.agent_config, audit_logger=found.append))
    return found


OUTCOMES = {
    "returned": "completed",
    "retried": "retried",
    "refused": "failed",
    "timeout": "retried",
    "cancelled": "cancelled",
}


@pytest.mark.parametrize("how", OUTCOMES)
def test_each_call_of_a_delegate_is_told_of_once_as_one_inside_its_run(client, records, how):
    say(client, f"ask {how}")
    stop_engine()
    inner, outer, run = records
    tool = "hurry" if how == "timeout" else "act"
    assert (inner.kind, inner.tool, inner.tool_call_id, inner.outcome) == ("tool", tool, "inner", OUTCOMES[how])
    delegate = Run.objects.get(is_ledger_only=True)
    assert (inner.run_id, inner.thread_id, inner.delegate) == ("r1", "t", delegate.run_id)
    assert (outer.tool, outer.delegate, run.kind, run.delegate) == ("ask", "", "run", "")
    assert inner.input_bytes == len(f'{{"how":"{how}"}}')
    assert inner.output_bytes == (len("returned") if how == "returned" else 0)
    assert 0 <= inner.duration_seconds <= outer.duration_seconds


def test_what_a_delegate_of_the_harness_alone_calls_is_not_told_of(client, records):
    say(client, "ask_stock returned")
    stop_engine()
    assert [record.tool for record in records] == ["ask_stock", ""]
