from typing import Any

from django_pydantic_agent import signals
from django_pydantic_agent.runs.engine import stop_engine
from tests.approvals.client import Asker, approve


def test_a_decision_is_told_of_by_the_run_that_acts_on_it(asker: Asker):
    heard: list[Any] = []

    def decided(run_id: str, interrupt_id: str, decision: str, **about: Any) -> None:
        heard.append((run_id, interrupt_id, decision))

    signals.approval_decided.connect(decided)
    (interrupt,) = asker.ask("erase 7", run_id="r1")
    asker.answer(approve(interrupt), run_id="r2")
    stop_engine()
    assert heard == [("r2", interrupt["id"], "approved")]
