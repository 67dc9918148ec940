"""Values that nobody sends by accident are refused, not answered with 500 or 503."""

from typing import Any

import pytest
from django.test import Client

from django_pydantic_agent.contrib.store.models import Run
from tests.api.posting import frames, post, user_message
from tests.api.tabs import Tab

DIGITS = "9" * 5_000


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
def test_if_match_of_5000_digits_fits_no_thread(client: Client, method: str) -> None:
    Tab(client).say("hello")
    if method == "post":
        answer = post(client, "/talk/", "r-late", [user_message("b", "u-late")], headers={"If-Match": f'"{DIGITS}"'})
    else:
        call = getattr(client, method)
        answer = call("/talk/threads/t1/", "{}", content_type="application/json", headers={"If-Match": f'"{DIGITS}"'})
    assert answer.status_code == 412


@pytest.mark.parametrize("version", [f"{DIGITS}.0", "1." + "0" * 40, "x" * 33])
def test_protocol_version_of_any_length_starts_a_run(client: Client, version: str) -> None:
    answer = post(client, "/agent/", protocolVersion=version)
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert frames(answer)[-1].event["type"] == "RUN_FINISHED"
    else:
        assert not Run.objects.exists()


@pytest.mark.parametrize("url", ["/talk/runs/", "/talk/threads/"])
def test_search_for_a_very_long_text_is_no_outage(client: Client, url: str) -> None:
    Tab(client).say("hello")
    assert client.get(url, {"q": "a" * 50_001}).status_code in (200, 400)


def test_message_id_with_a_nul_is_known_when_it_comes_again(client: Client) -> None:
    tab = Tab(client)
    asked: list[dict[str, Any]] = [user_message("hello", "u\0")]
    tab.take(tab.send(asked))
    turns = tab.client.get("/talk/threads/").json()["threads"][0]["turns"]
    tab.take(tab.send(asked))
    assert (turns, tab.client.get("/talk/threads/").json()["threads"][0]["turns"]) == (1, 1)
