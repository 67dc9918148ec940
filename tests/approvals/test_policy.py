"""Which calls ask for approval."""

from typing import Any

import pytest
from django.test import Client

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.models import ToolEffect
from tests.approvals.agent import DONE, registry
from tests.approvals.client import Asker, approve, deny


def test_a_mounts_policy_asks_for_more_than_the_tools_do(client: Client):
    asker = Asker(client, "/strict/")
    look, erase = sorted(asker.ask("erase 7, look", run_id="r1"), key=lambda asked: "erase" in asked["message"])
    assert DONE == []
    assert not ToolEffect.objects.exists()
    assert asker.run("r1")["unresolved_effects"] == 0
    asker.answer(approve(erase), deny(look))
    assert DONE == [7]


def test_a_call_that_the_policy_had_approved_runs_once(client: Client):
    asker = Asker(client, "/strict/")
    (interrupt,) = asker.ask("look")
    asker.answer(approve(interrupt))
    assert (DONE, asker.messages[-1]["content"]) == (["look"], "done")
    assert [effect.status for effect in ToolEffect.objects.all()] == ["completed"]


def test_a_policy_sees_the_request(stranger: Client):
    assert Asker(stranger, "/strict/").say("look")[-1]["outcome"]["type"] == "success"
    assert DONE == ["look"]


@pytest.mark.parametrize("policy", ["always", 1])
def test_a_policy_that_cannot_be_called_is_refused(policy: Any):
    with pytest.raises(TypeError, match="approval_policy"):
        AGUIServer(registry, approval_policy=policy)
