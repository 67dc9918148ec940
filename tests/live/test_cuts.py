"""Streams that are cut behind and inside each of their frames, and the stock client that comes back."""

import pytest

from django_pydantic_agent.contrib.store.models import Run
from tests.live.gates import Gatekeeper
from tests.live.scripts import call, fail, script, spell, think
from tests.live.visitors import Visitor
from tests.servers import Server
from tests.stock_client import CLIENT_VERSIONS, run_script

# What a client makes of the wire is the same on every database.
pytestmark = [pytest.mark.node, pytest.mark.sqlite]

TALLY = call("tally", run="{run}")
RECORDED = {
    "text": ([TALLY], [spell("ö\u2028!")]),
    "reasoning": ([think("Two words."), TALLY], [think("And now."), "Said."]),
    "parallel tools": (["Asking.", TALLY, call("quick", word="one"), call("quick", word="two")], ["Asked."]),
    "error": ([TALLY], ["Half a ", fail("no more")]),
    "cancel": ([TALLY], ["So far. ", call("quick", word="one"), call("hold", gate="never")]),
}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
@pytest.mark.parametrize("name", RECORDED)
def test_a_client_that_was_cut_at_any_frame_ends_with_what_an_uncut_one_has(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper, name: str, version: str
):
    job = {
        "url": f"{uvicorn.url}/talk/",
        "headers": visitor.headers,
        "clientVersion": version,
        "message": script(*RECORDED[name]),
        "cancelOn": "TOOL_CALL_RESULT" if name == "cancel" else None,
    }
    answer = run_script("cuts.mjs", job)
    assert answer["differences"] == []
    runs = answer["runs"]
    assert len(runs) == 2 * (answer["frames"][0] + 1) > 20
    assert answer["uncut"]["state"] == {"run": runs[-1], "steps": ["tallied"]}
    assert {gates.count(run) for run in runs} == {1}
    assert Run.objects.filter(owner=visitor.owner.key).count() == len(runs)
