"""GET runs/ and runs/<run>/."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from django_ag_ui.api.paths import encode_id
from tests.api.agents import GATES
from tests.api.posting import chunks, error, frames, post, run_links, user_message

PUBLISHED = ["run_id", "thread_id", "parent_run_id", "started_at", "continuable", "preview"]
ADDED = ["status", "finished_at", "title", "last_seq", "unresolved_effects", "parent_unresolved_effects"]
ADDED += ["pending_interrupts", "links"]
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


def ids(response: Any) -> list[str]:
    return [run["run_id"] for run in response.json()["runs"]]


def test_a_row_has_the_published_keys_and_the_added_ones(client: Client):
    last = frames(post(client, "/agent/", "r1", "  two\n lines "))[-1]
    answer = client.get("/agent/runs/").json()
    assert list(answer) == ["runs", "next"]
    (row,) = answer["runs"]
    assert list(row) == PUBLISHED + ADDED
    assert MOMENT.fullmatch(row.pop("started_at"))
    assert MOMENT.fullmatch(row.pop("finished_at"))
    assert row == {
        "run_id": "r1",
        "thread_id": "t1",
        "parent_run_id": None,
        "continuable": True,
        "preview": "two lines",
        "status": "finished",
        "title": None,
        "last_seq": last.seq,
        "unresolved_effects": 0,
        "parent_unresolved_effects": 0,
        "pending_interrupts": 0,
        "links": run_links("/agent/") | {"resume": "/agent/resume/r1/", "fork": "/agent/fork/r1/"},
    }


def test_C35_times_have_their_offset_whatever_the_time_zone(client: Client, settings: Settings):
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    frames(post(client, "/agent/", "r1"))
    (row,) = client.get("/agent/runs/").json()["runs"]
    assert MOMENT.fullmatch(row["started_at"])


def test_runs_come_newest_first_in_pages(client: Client, settings: Settings):
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMIT": 2}
    for number in range(5):
        frames(post(client, "/agent/", f"r{number}"))
    pages, cursor = [], ""
    while cursor is not None:
        answer = client.get(f"/agent/runs/?cursor={cursor}" if cursor else "/agent/runs/")
        pages.append(ids(answer))
        cursor = answer.json()["next"]
    assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]


def test_a_limit_of_0_lifts_it_and_the_query_has_none(client: Client, settings: Settings):
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMIT": 1}
    for number in range(3):
        frames(post(client, "/agent/", f"r{number}"))
    assert len(ids(client.get("/agent/runs/?limit=2"))) == 1
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMIT": 0}
    assert len(ids(client.get("/agent/runs/"))) == 3


def test_filters_by_thread_status_and_text(client: Client):
    frames(post(client, "/agent/", "r1", "apples", thread_id="a"))
    frames(post(client, "/agent/", "r2", "fail pears", thread_id="b"))
    assert ids(client.get("/agent/runs/?thread_id=a")) == ["r1"]
    assert ids(client.get("/agent/runs/?status=failed")) == ["r2"]
    assert ids(client.get("/agent/runs/?q=APPL")) == ["r1"]
    assert ids(client.get("/agent/runs/?q=zzz")) == []


def test_a_text_to_search_for_is_bounded(client: Client):
    assert client.get("/agent/runs/", {"q": "%" * 1_000}).json()["runs"] == []
    for length in (1_001, 100_000):
        assert error(client.get("/agent/runs/", {"q": "a" * length})) == (400, "invalid_query")


@pytest.mark.parametrize("query", ["status=done", "cursor=", "cursor=abc", "cursor=%00", "cursor=-1:x"])
def test_a_query_that_cannot_be_meant_is_refused(client: Client, query: str):
    assert error(client.get(f"/agent/runs/?{query}")) == (400, "invalid_query")


def test_nobody_sees_the_runs_of_somebody_else(client: Client, stranger: Client):
    frames(post(client, "/agent/", "r1"))
    assert ids(stranger.get("/agent/runs/")) == []
    foreign, unknown = stranger.get("/agent/runs/r1/"), stranger.get("/agent/runs/r2/")
    assert error(foreign) == error(unknown) == (404, "not_found")
    assert foreign.content == unknown.content


@pytest.mark.parametrize("segment", ["%00", "~AA", "a%00b", "%0A", "~", "%F0%9F", "x" * 5000])
def test_C08_a_path_that_names_no_id_is_not_found(client: Client, segment: str):
    assert error(client.get(f"/agent/runs/{segment}/")) == (404, "not_found")
    assert error(post(client, f"/agent/resume/{segment}/")) == (404, "not_found")


@pytest.mark.parametrize("run_id", ["a/b", "..", "~x", "ä 🎈", "a?b#c", "r:1@x", "x" * 1024])
def test_links_hold_usable_urls_for_any_id(client: Client, run_id: str):
    frames(post(client, "/agent/", run_id))
    (row,) = client.get("/agent/runs/").json()["runs"]
    assert row["links"]["self"] == f"/agent/runs/{encode_id(run_id)}/"
    assert client.get(row["links"]["self"]).json()["run_id"] == run_id
    assert post(client, row["links"]["fork"], "next", [user_message("more", "u2")]).streaming


def test_links_stay_inside_a_mount_that_captures_something(client: Client):
    frames(post(client, "/teams/red/agent/", "r1"))
    (row,) = client.get("/teams/red/agent/runs/").json()["runs"]
    assert row["links"]["self"] == "/teams/red/agent/runs/r1/"
    assert client.get(row["links"]["self"]).status_code == 200


def test_one_run_shows_how_far_it_is_and_how_it_ended(client: Client):
    frames(post(client, "/agent/", "r1", "fail"))
    row = client.get("/agent/runs/r1/").json()
    assert list(row) == [*PUBLISHED, *ADDED, "applied_seq", "durable_seq", "attempt", "error", "interrupts"]
    assert row["error"] == {"code": "internal_error", "message": "The run failed."}
    assert row["applied_seq"] == row["durable_seq"] == row["last_seq"]
    assert (row["status"], row["attempt"], row["interrupts"]) == ("failed", 1, [])


def test_an_unchanged_run_is_not_sent_again(client: Client, live: None):
    stream = chunks(post(client, "/agent/", "r1", "wait here"))
    assert any(b"begun" in chunk for chunk in stream)
    first = client.get("/agent/runs/r1/")
    unchanged = client.get("/agent/runs/r1/", headers={"If-None-Match": first["ETag"]})
    assert (unchanged.status_code, unchanged.content, unchanged["ETag"]) == (304, b"", first["ETag"])
    GATES["here"].open()
    list(stream)
    changed = client.get("/agent/runs/r1/", headers={"If-None-Match": first["ETag"]})
    assert (changed.status_code, changed.json()["status"]) == (200, "finished")
    assert changed["ETag"] != first["ETag"]


def test_lists_of_runs_are_kept_by_no_shared_cache(client: Client):
    assert client.get("/agent/runs/")["Cache-Control"] == "private, no-cache"


def test_no_answer_names_an_owner(client: Client):
    frames(post(client, "/agent/", "r1"))
    for route in ("runs/", "runs/r1/"):
        assert "owner" not in client.get(f"/agent/{route}").content.decode()


def test_a_page_of_runs_costs_few_queries(client: Client, django_assert_max_num_queries: Any):
    for number in range(4):
        frames(post(client, "/agent/", f"r{number}"))
    with django_assert_max_num_queries(3):  # session, user, and the runs in one
        client.get("/agent/runs/")
