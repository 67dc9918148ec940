"""A step store that this project has never heard of: the engine keeps the log, the store is asked for the ledger."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from tests.api.agents import model
from tests.api.posting import error, events, frames, post, run_links, text_of, user_message
from tests.api.stores import STORES, DictStepStore
from tests.api.test_continue import MORE, prompts


@pytest.mark.parametrize("mount", ["/foreign/", "/scoped-foreign/"])
def test_runs_are_listed_resumed_and_forked(client: Client, mount: str):
    assert text_of(events(post(client, mount, "r1", "hi"))) == "echo hi"
    (row,) = client.get(f"{mount}runs/").json()["runs"]
    assert (row["continuable"], row["preview"], row["status"]) == (True, "hi", "finished")
    for verb in ("resume", "fork"):
        assert text_of(events(post(client, row["links"][verb], verb, MORE))) == "echo more"
        assert prompts(model.requests[-1]) == ["hi", "more"]
    assert client.get(f"{mount}runs/fork/").json()["parent_run_id"] == "r1"


def test_a_scope_keeps_a_foreign_store_apart(client: Client, user: User):
    frames(post(client, "/foreign/", "r1", "hi"))
    assert error(post(client, "/scoped-foreign/resume/r1/", "r2", MORE)) == (404, "not_found")
    frames(post(client, "/scoped-foreign/", "r1", "inside"))
    assert len(STORES[user.pk].runs) == 2


def test_a_foreign_store_is_asked_only_for_the_rows_shown(client: Client, user: User, settings: Settings):
    settings.DJANGO_AG_UI = {"RUN_LIST_LIMIT": 2}
    for number in range(4):
        frames(post(client, "/foreign/", f"r{number}"))
    STORES[user.pk].asked.clear()
    client.get("/foreign/runs/")
    assert sorted(STORES[user.pk].asked) == ["r2", "r3"]


def test_a_run_without_a_complete_snapshot_is_shown_and_cannot_be_continued(client: Client, user: User):
    frames(post(client, "/foreign/", "r1"))
    STORES[user.pk].snapshots.clear()
    (row,) = client.get("/foreign/runs/").json()["runs"]
    assert (row["continuable"], row["preview"], row["links"]) == (False, None, run_links("/foreign/"))
    assert error(post(client, "/foreign/resume/r1/", "r2", MORE)) == (404, "not_found")


def test_a_store_that_does_not_list_unresolved_effects_has_none(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(DictStepStore, "list_unresolved_tool_effects")
    frames(post(client, "/foreign/", "r1"))
    (row,) = client.get("/foreign/runs/").json()["runs"]
    assert row["unresolved_effects"] == 0
    assert client.get("/foreign/runs/r1/effects/").json() == {"effects": []}


def test_a_preview_is_one_line_and_cut(client: Client):
    frames(post(client, "/foreign/", "r1", [user_message("word\n\t " * 100)]))
    preview = client.get("/foreign/runs/").json()["runs"][0]["preview"]
    assert len(preview) == 120
    assert preview.startswith("word word")
    assert "\n" not in preview


def test_without_the_store_app_runs_are_kept_in_memory(client: Client, settings: Settings):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if "contrib.store" not in app]
    frames(post(client, "/foreign/", "in-memory", "hi"))
    assert client.get("/foreign/runs/in-memory/").json()["status"] == "finished"
    assert text_of(events(post(client, "/foreign/resume/in-memory/", "in-memory-2", MORE))) == "echo more"
