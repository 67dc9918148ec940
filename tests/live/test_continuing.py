"""Resume and fork: a new run goes on from a snapshot, and the run that took it stays as it was."""

import json
from functools import partial
from typing import Any

import pytest

from django_pydantic_agent.contrib.store import models
from tests.live.conftest import Start
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, fail, gate, script
from tests.live.visitors import (
    Visitor,
    at_once,
    check_complete,
    eventually,
    fresh,
    run_input,
    text_of,
    types_of,
)
from tests.servers import Server
from tests.sse import check_sequence, events_of

ROUTES = ["resume", "fork"]


def rows_of(visitor: Visitor, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return every column of every row that a run has."""
    run = models.Run.objects.filter(pk=visitor.row(run_id).pk)
    return {
        "runs": list(run.values()),
        "history": list(models.HistoryMessage.objects.filter(writer__in=run).order_by("pk").values()),
        **{
            model.__name__: list(model.objects.filter(run__in=run).order_by("pk").values())
            for model in (models.RunFrames, models.Snapshot, models.StepEvent, models.ToolEffect)
        },
    }


@pytest.mark.parametrize("route", ROUTES)
def test_the_new_run_has_the_whole_history_though_only_the_new_turn_is_posted(
    uvicorn: Server, visitor: Visitor, route: str
):
    source, run_id = fresh("source"), fresh("run")
    thread_id = "t1" if route == "resume" else "t2"
    asked, recite = script([call("quick", word="kept")], ["first answer"]), script([RECITE])
    visitor.run(uvicorn, source, asked)
    visitor.ended(source)
    before = rows_of(visitor, source)
    assert all(before.values())
    frames = visitor.run(uvicorn, run_id, recite, route=f"agent/{route}/{source}/", thread_id=thread_id)
    assert json.loads(text_of(frames)) == [
        ["user-prompt", asked],
        ["tool-call", "quick"],
        ["tool-return", "kept!"],
        ["text", "first answer"],
        ["user-prompt", recite],
    ]
    check_complete(visitor, run_id, frames)
    assert events_of(frames)[0]["parentRunId"] == source
    visitor.ended(run_id)
    assert rows_of(visitor, source) == before
    status, row = visitor.get(uvicorn, f"agent/runs/{run_id}/")
    assert (status, row["parent_run_id"], row["thread_id"]) == (200, source, thread_id)
    (snapshot, *_) = models.Snapshot.objects.filter(run=visitor.row(run_id))
    assert snapshot.parent_run_id == source


@pytest.mark.parametrize("with_answers", [True, False])
def test_what_the_lineage_holds_is_dropped_by_id_and_the_client_s_copy_of_it_ignored(
    uvicorn: Server, visitor: Visitor, with_answers: bool
):
    source, second, third = fresh("source"), fresh("run"), fresh("run")
    visitor.run(uvicorn, source, script(["one"]))
    visitor.run(uvicorn, second, script(["two"]), route=f"agent/resume/{source}/")
    known = [{"id": f"{run_id}-u0", "role": "user", "content": "forged"} for run_id in (source, second)]
    answers = [{"id": f"a{index}", "role": "assistant", "content": "forged"} for index in range(2)]
    posted = [known[0], answers[0], known[1], answers[1]] if with_answers else known
    frames = visitor.run(uvicorn, third, *posted, script([RECITE]), route=f"agent/resume/{second}/")
    recited = json.loads(text_of(frames))
    assert [kind for kind, _ in recited] == ["user-prompt", "text", "user-prompt", "text", "user-prompt"]
    assert "forged" not in text_of(frames)


@pytest.mark.parametrize("route", ROUTES)
def test_foreign_and_unknown_ids_answer_alike(uvicorn: Server, visitor: Visitor, route: str):
    source, missing = fresh("source"), fresh("source")
    visitor.run(uvicorn, source, script(["mine"]))
    stranger = Visitor.new()
    body = run_input(fresh("run"), script(["stolen"]))
    for pattern in (f"agent/{route}/{{}}/", f"plain/{route}/{{}}/"):
        foreign = stranger.answer(uvicorn, body, route=pattern.format(source))
        assert foreign == stranger.answer(uvicorn, body, route=pattern.format(missing))
        assert foreign[0] == 404
    page = stranger.get(uvicorn, f"agent/runs/{source}/")
    assert page == stranger.get(uvicorn, f"agent/runs/{missing}/")
    assert page[0] == 404
    assert stranger.get(uvicorn, "agent/runs/")[1]["runs"] == []
    assert visitor.get(uvicorn, f"agent/runs/{source}/")[0] == 200


@pytest.mark.parametrize("route", ROUTES)
def test_a_used_run_id_is_refused_in_the_stream_by_name(uvicorn: Server, visitor: Visitor, route: str):
    source, used = fresh("source"), fresh("used")
    visitor.run(uvicorn, source, script(["one"]))
    visitor.run(uvicorn, used, script(["two"]))
    visitor.ended(used)
    before = rows_of(visitor, used)
    frames = visitor.run(uvicorn, used, script(["three"]), route=f"agent/{route}/{source}/")
    assert [(frame.id, frame.event and frame.event["type"]) for frame in frames] == [
        (None, "RUN_STARTED"),
        (None, "RUN_ERROR"),
    ]
    check_sequence(events_of(frames))
    message = events_of(frames)[1]["message"]
    assert used in message
    assert "single-shot" in message
    assert rows_of(visitor, used) == before


@pytest.mark.parametrize("route", ROUTES)
def test_two_equal_resumes_at_two_servers_at_once_run_once(
    uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper, route: str
):
    source, run_id, note = fresh("source"), fresh("run"), fresh("note")
    visitor.run(uvicorn, source, script(["one"]))
    body = run_input(run_id, script([call("write", text=note)], ["done"]))
    answers = at_once(
        [partial(visitor.read, server, body, route=f"agent/{route}/{source}/") for server in (uvicorn, daphne) * 2]
    )
    check_complete(visitor, run_id, visitor.log(daphne, run_id))
    assert gates.count(note) == 1
    assert visitor.user is not None
    assert visitor.user.notes.filter(text=note).count() == 1
    later = visitor.read(daphne, body, route=f"agent/{route}/{source}/")
    assert {frames[-1].raw for frames in [*answers, later]} == {later[-1].raw}
    assert gates.count(note) == 1


def check_resumed_after_the_tool(
    server: Server, visitor: Visitor, gates: Gatekeeper, source: str, note: str, asked: str
) -> None:
    """Resume a run that ended behind a tool call; the model must know its result and the tool must not run again."""
    before = rows_of(visitor, source)
    run_id = fresh("run")
    frames = visitor.run(server, run_id, script([RECITE]), route=f"agent/resume/{source}/")
    recited = json.loads(text_of(frames))
    assert recited[:3] == [["user-prompt", asked], ["tool-call", "write"], ["tool-return", f"wrote {note}"]]
    assert gates.count(note) == 1
    visitor.ended(run_id)
    assert rows_of(visitor, source) == before
    assert visitor.row(run_id).parent_run_id == source
    assert [effect["status"] for effect in before["ToolEffect"]] == ["completed"]


def test_C15_resume_after_a_model_failed_behind_a_finished_tool(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    source, note = fresh("source"), fresh("note")
    asked = script([call("write", text=note)], [fail("no model")])
    assert types_of(visitor.run(uvicorn, source, asked))[-1] == "RUN_ERROR"
    visitor.ended(source)
    check_resumed_after_the_tool(uvicorn, visitor, gates, source, note, asked)


@pytest.mark.parametrize("kind", ["uvicorn", "gunicorn-gthread"])
def test_C15_resume_after_a_process_was_killed_behind_a_finished_tool(
    start: Start, visitor: Visitor, gates: Gatekeeper, kind: str
):
    source, note, held = fresh("source"), fresh("note"), fresh("held")
    asked = script([call("write", text=note)], [gate(held), "never said"])
    with start(kind) as server:
        with visitor.post(server, source, asked) as response:
            response.until("TOOL_CALL_RESULT")
            gates.wait_reached(held)
            # The model has been asked, so the boundary is on its way to the database.
            effects = models.ToolEffect.objects.filter(run=visitor.row(source), status="completed")
            eventually(lambda: effects.exists() and visitor.row(source).is_continuable)
            server.kill()
        with start(kind, port=server.port) as restarted:
            check_resumed_after_the_tool(restarted, visitor, gates, source, note, asked)
