from dataclasses import replace

import pytest
from pydantic_ai.ui import StateHandler

import django_pydantic_agent
from django_pydantic_agent import AgentDeps


def test_deps_carry_the_state_of_the_adapter():
    deps = AgentDeps(run_id="r1", state={"a": 1})
    assert isinstance(deps, StateHandler)
    changed = replace(deps, state={"a": 2})
    assert (changed.run_id, changed.state, deps.state) == ("r1", {"a": 2}, {"a": 1})


def test_the_package_names_what_it_exports():
    assert set(django_pydantic_agent.__all__) <= set(dir(django_pydantic_agent))
    with pytest.raises(AttributeError, match="has no attribute 'Agent'"):
        _ = django_pydantic_agent.Agent
