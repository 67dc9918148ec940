"""What not every store takes fails neither the run, where it can be made storable, nor any other run."""

import json

import pytest

from tests.live.agent import MEGABYTE, ODD, digest
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, gate, script, spell
from tests.live.visitors import Visitor, check_complete, fresh, lines_of, run_input, text_of
from tests.servers import Server
from tests.sse import events_of


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_result_fails_no_run_and_is_known_after_a_resume(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper, kind: str
):
    run_id, beside, held = fresh("run"), fresh("beside"), fresh("held")
    other = Visitor.new()
    with (
        other.post(
            uvicorn, beside, script([gate(held), spell("abc" * 200), call("quick", word="b")], ["done"])
        ) as near,
        visitor.post(uvicorn, run_id, script([gate(held), call("odd", kind=kind)], ["ended"])) as response,
    ):
        gates.wait_reached(held, 2)
        gates.open(held)
        frames, others = list(response.frames()), list(near.frames())
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
    assert check_complete(other, beside, others)["type"] == "RUN_FINISHED"
    (result,) = [event["content"] for event in events_of(frames) if event["type"] == "TOOL_CALL_RESULT"]
    assert {"nul": "before\N{REPLACEMENT CHARACTER}after"}.get(kind, "") in result
    assert len(result) < 3 * MEGABYTE
    visitor.ended(run_id)
    resumed = visitor.run(uvicorn, fresh("run"), script([RECITE]), route=f"agent/resume/{run_id}/")
    recited = json.loads(text_of(resumed))
    assert [part[0] for part in recited] == ["user-prompt", "tool-call", "tool-return", "text", "user-prompt"]
    if kind == "30 MB":
        assert recited[2][1] == digest(ODD[kind]())


def test_a_result_without_a_json_form_ends_the_run_as_it_would_without_a_store(uvicorn: Server, visitor: Visitor):
    run_id = fresh("run")
    frames = visitor.run(uvicorn, run_id, script([call("quick", word="a")], [call("formless", text="b")], ["ended"]))
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_ERROR"
    assert visitor.row(run_id).is_continuable
    resumed = visitor.run(uvicorn, fresh("run"), script([RECITE]), route=f"agent/resume/{run_id}/")
    assert ["tool-return", "a!"] in json.loads(text_of(resumed))


@pytest.mark.parametrize("text", ["before\0after", "before\ud800after"], ids=["nul", "lone surrogate"])
def test_odd_text_of_the_user_the_model_and_its_arguments_is_stored(uvicorn: Server, visitor: Visitor, text: str):
    run_id = fresh("run")
    turns = [
        [{"do": "think", "text": text}, {"do": "call", "tool": "quick", "id": None, "args": {"word": text}}],
        [text],
    ]
    # Everything in the script is escaped twice, so that the odd text comes into being on the server.
    body = run_input(run_id, {"id": "u1", "role": "user", "content": json.dumps(turns)})
    extra = {"id": "u0", "role": "user", "content": f"said {text}"}
    body["messages"] = [extra, *body["messages"]]
    frames = visitor.read(uvicorn, body)
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_FINISHED"
    assert text_of(frames) == "before\N{REPLACEMENT CHARACTER}after"
    assert lines_of(visitor.log(uvicorn, run_id)) == lines_of(frames)


@pytest.mark.parametrize("kind", ["nul", "lone surrogate"])
def test_odd_text_of_an_exception_is_stored(uvicorn: Server, visitor: Visitor, kind: str):
    run_id = fresh("run")
    frames = visitor.run(uvicorn, run_id, script([call("odd_boom", kind=kind)]))
    assert check_complete(visitor, run_id, frames)["type"] == "RUN_ERROR"
    row = visitor.row(run_id)
    assert row.error is not None
    assert row.error["code"] == "internal_error"
    assert [effect.status for effect in row.tool_effects.all()] == ["failed"]
