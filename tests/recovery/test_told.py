"""What the process that takes a run over tells of it."""

from dataclasses import replace
from typing import Any

from django_pydantic_agent import signals
from django_pydantic_agent.runs.engine import stop_engine
from tests.recovery.test_kill import hold
from tests.recovery.urls import talk


def test_a_run_whose_process_is_gone_is_told_of_with_the_calls_that_nobody_knows_of(processes, gates, monkeypatch):
    heard: list[Any] = []

    def orphaned(run_id: str, code: str, **about: Any) -> None:
        heard.append(("orphaned", run_id, code))

    def unresolved(run_id: str, tool_call_id: str, tool: str, reason: str, **about: Any) -> None:
        heard.append(("unresolved", run_id, tool_call_id, tool, reason))

    signals.run_orphaned.connect(orphaned)
    signals.effect_unresolved.connect(unresolved)
    body = processes.body([[hold("told")]])
    job = processes.post(body)
    gates.wait_reached("told")
    job.kill()
    records: list[Any] = []
    monkeypatch.setattr(talk, "agent_config", replace(talk.agent_config, audit_logger=records.append))
    processes.recover()
    run = processes.run(body)
    stop_engine()
    assert heard == [("orphaned", run.run_id, "orphaned"), ("unresolved", run.run_id, "hold", "hold", "crash")]
    [record] = records
    assert (record.kind, record.outcome, record.output_bytes) == ("run", "orphaned", None)
    assert record.input_bytes > 0
