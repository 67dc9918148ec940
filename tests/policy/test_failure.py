import logging
from dataclasses import dataclass

import pytest
from django.core.exceptions import PermissionDenied
from pydantic_ai import Agent, ModelRetry
from rest_framework import exceptions

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.exceptions import StoreUnavailable
from django_pydantic_agent.policy.failure import Failure, FailurePolicy, shown_failure
from django_pydantic_agent.stores import run_store_for
from django_pydantic_agent.testing.models import Failure as ModelFailure
from django_pydantic_agent.testing.models import ScriptedModel, ToolCall
from tests.core.plans import OWNER, events, plan, stored
from tests.sse import check_sequence

SECRET = "secret-marker"


class Frank(FailurePolicy):
    """Shows what is known of an error, but for what it does not know itself."""

    def tool_error(self, error: Exception, *, tool: str) -> str | None:
        return f"{tool} has failed" if isinstance(error, LookupError) else super().tool_error(error, tool=tool)

    def run_error(self, error: Exception) -> Failure:
        return Failure("no_such_thing", "There is no such thing.")


@dataclass(frozen=True)
class Broken(FailurePolicy):
    """Cannot say anything."""

    says: object = None

    def tool_error(self, error: Exception, *, tool: str) -> str | None:
        return self._answer()

    def run_error(self, error: Exception) -> Failure:
        return self._answer()

    def _answer(self):
        if self.says is None:
            raise KeyError(SECRET)
        return self.says


def agent_that_raises(*errors: Exception) -> tuple[Agent, ScriptedModel]:
    """Return an agent whose tool raises each of `errors` in turn, and succeeds after them."""
    model = ScriptedModel([*[[ToolCall("look", {"n": n})] for n in range(len(errors))], [ToolCall("look")], ["done"]])
    agent, left = Agent(model, retries=3), list(errors)

    @agent.tool_plain
    def look(n: int = 0) -> str:
        if left:
            raise left.pop(0)
        return "seen"

    return agent, model


def results(found):
    return [event["content"] for event in found if event["type"] == "TOOL_CALL_RESULT"]


@pytest.mark.parametrize(
    "error", [PermissionDenied(SECRET), PermissionError(SECRET), exceptions.PermissionDenied(SECRET)]
)
def test_a_missing_permission_is_a_result_that_says_so_and_the_run_goes_on(error, caplog):
    agent, _ = agent_that_raises(error)
    found = events(plan(agent=agent))
    check_sequence(found)
    assert results(found) == ["The permission for this is missing. Do not try it again.", "seen"]
    assert found[-1]["type"] == "RUN_FINISHED"
    assert SECRET not in str(found)
    assert SECRET in caplog.text


def test_any_other_exception_of_a_tool_ends_the_run_and_shows_nothing():
    agent, _ = agent_that_raises(LookupError(SECRET))
    run_plan = plan(agent=agent)
    found = events(run_plan)
    assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "internal_error")
    assert SECRET not in str(found)
    assert stored(run_plan).error == {"code": "internal_error", "message": "The run failed."}


def test_a_policy_has_a_text_in_place_of_the_result_and_the_model_gets_it():
    agent, model = agent_that_raises(LookupError(SECRET))
    found = events(plan(agent=agent, failure_policy=Frank()))
    assert results(found) == ["look has failed", "seen"]
    returned = model.requests[1][-1].parts[0]
    assert (returned.content, returned.outcome) == ("look has failed", "failed")
    assert SECRET not in str(found)


def test_retries_that_a_tool_asks_for_are_its_own_and_count():
    agent, _ = agent_that_raises(ModelRetry("look again"))
    found = events(plan(agent=agent, failure_policy=Frank()))
    assert "look again" in results(found)[0]
    assert results(found)[1:] == ["seen"]
    agent, _ = agent_that_raises(*[ModelRetry("look again")] * 9)
    found = events(plan(agent=agent, failure_policy=Broken(says="never")))
    assert len(results(found)) < 9
    assert found[-1]["type"] == "RUN_ERROR"


def test_a_policy_has_its_own_code_and_sentence_for_what_ended_the_run():
    found = events(plan([[ModelFailure(RuntimeError(SECRET))]], failure_policy=Frank()))
    assert (found[-1]["code"], found[-1]["message"]) == ("no_such_thing", "There is no such thing.")


@pytest.mark.parametrize("policy", [Broken(), Broken(says=3)])
def test_a_policy_that_fails_itself_shows_nothing(policy, caplog):
    caplog.set_level(logging.ERROR)
    agent, _ = agent_that_raises(PermissionDenied(SECRET))
    found = events(plan(agent=agent, failure_policy=policy))
    assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "internal_error")
    assert "The failure policy could not say what to show" in caplog.text
    assert SECRET not in str(found)


@pytest.mark.django_db(transaction=True)
def test_the_ledger_says_that_a_call_without_permission_has_failed():
    agent, _ = agent_that_raises(PermissionDenied(SECRET))
    events(plan(agent=agent, store=run_store_for(OWNER), step_store=DefaultStepStore))
    effects = ToolEffect.objects.order_by("pk").values_list("tool_name", "status")
    assert list(effects) == [("look", "failed"), ("look", "completed")]


def test_what_the_engine_says_of_itself_is_no_policys():
    assert shown_failure(StoreUnavailable(), Frank()).code == "storage"
