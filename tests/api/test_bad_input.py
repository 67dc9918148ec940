"""Whatever is posted: a JSON error with the right status, no row, no traceback."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import AsyncClient, Client
from pytest_django import Settings

from django_pydantic_agent.contrib.store.models import Run
from tests.api.posting import error, events, frames, post, run_input, user_message

ROUTES = ["/agent/", "/agent/resume/source/", "/agent/fork/source/"]


@pytest.fixture(autouse=True)
def nothing_is_written(client: Client) -> Iterator[None]:
    frames(post(client, "/agent/", "source"))
    yield
    assert list(Run.objects.values_list("run_id", flat=True)) == ["source"]


def raw(client: Client, body: bytes, url: str = "/agent/", content_type: str = "application/json") -> Any:
    response = client.generic("POST", url, body, CONTENT_TYPE=content_type)
    assert response.streaming or b"Traceback" not in response.content
    return response


MALFORMED = {
    "nothing": b"",
    "half an object": b'{"threadId": "t1"',
    "no UTF-8": b'{"threadId": "\xff\xfe"}',
    "a list": b"[]",
    "null": b"null",
    "100,000 levels": b"[" * 100_000,
    "100,000 levels of state": b'{"threadId":"t","runId":"r","messages":[],"state":' + b'{"a":' * 100_000,
    "no messages": b'{"threadId":"t","runId":"r"}',
    "a number as id": json.dumps(run_input() | {"runId": 7}).encode(),
    "null as id": json.dumps(run_input() | {"threadId": None}).encode(),
    "messages that are no list": json.dumps(run_input() | {"messages": "hello"}).encode(),
    "a message that is no object": json.dumps(run_input() | {"messages": [1]}).encode(),
    "an unknown role": json.dumps(run_input() | {"messages": [{"id": "1", "role": "alien", "content": ""}]}).encode(),
    "a part of no kind": json.dumps(run_input(messages=[{"id": "1", "role": "user", "content": [{}]}])).encode(),
    "an empty run id": json.dumps(run_input("")).encode(),
    "an empty thread id": json.dumps(run_input(thread_id="")).encode(),
    "a run id of 1,025 bytes": json.dumps(run_input("x" * 1025)).encode(),
    "a run id of 1,026 bytes in 342 characters": json.dumps(run_input("€" * 342)).encode(),
    "a control character": json.dumps(run_input("a\nb")).encode(),
    "a NUL": json.dumps(run_input("a\0b")).encode(),
    "a C1 control character": json.dumps(run_input("a\x85b")).encode(),
    "bad base64": json.dumps(
        run_input(
            messages=[
                {
                    "id": "1",
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "data", "value": "%", "mimeType": "image/png"}}],
                }
            ]
        )
    ).encode(),
    "a question without content": json.dumps(run_input(messages=[{"id": "1", "role": "user", "content": []}])).encode(),
    "a tool named like one of the server": json.dumps(
        run_input(messages=[user_message("hello", "u2")]) | {"tools": [{"name": "add", "description": ""}]}
    ).encode(),
}


@pytest.mark.parametrize("url", ROUTES)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_body_is_refused(client: Client, url: str, body: bytes):
    assert error(raw(client, body, url)) == (400, "invalid_input")


def test_a_tool_named_like_one_of_the_server_is_named(client: Client):
    tools = [{"name": "other", "description": ""}, {"name": "add", "description": ""}]
    assert "'add'" in post(client, "/agent/", "r1", tools=tools).json()["error"]


def test_a_question_without_content_before_the_last_answer_is_no_matter(client: Client):
    messages = [
        {"id": "u1", "role": "user", "content": []},
        {"id": "a1", "role": "assistant", "content": "Yes?"},
        user_message("hello", "u2"),
    ]
    assert events(post(client, "/agent/", "r1", messages))[-1]["type"] == "RUN_FINISHED"
    Run.objects.filter(run_id="r1").delete()


@pytest.mark.parametrize("version", ["9" * 5_000 + ".0", "1." + "0" * 40, "x" * 33, "\0"])
def test_a_protocol_version_of_any_length_is_taken(client: Client, version: str):
    assert events(post(client, "/agent/", "r1", protocolVersion=version))[-1]["type"] == "RUN_FINISHED"
    answer = client.post(
        "/agent/?" + urlencode({"protocol": version}), run_input("r2"), content_type="application/json"
    )
    assert events(answer)[-1]["type"] == "RUN_FINISHED"
    Run.objects.filter(run_id__in=["r1", "r2"]).delete()


@pytest.mark.parametrize("run_id", ["x" * 1024, "€" * 341, "a b/c?d#e", "..", "💡"])
def test_ids_up_to_the_limit_are_taken(client: Client, run_id: str):
    assert events(post(client, "/agent/", run_id))[0]["runId"] == run_id
    Run.objects.filter(run_id=run_id).delete()


def test_half_a_surrogate_pair_is_replaced_not_refused(client: Client):
    message = rb'{"id":"u1","role":"user","content":"\ud83d\ude00 \uD83D \\ud83d"}'
    body = rb'{"threadId":"t1","runId":"r\ud83d1","messages":[%s]}' % message
    started = events(raw(client, body))[0]
    assert started["runId"] == "r\ufffd1"
    assert started["input"]["messages"][0]["content"] == "😀 \ufffd \\ud83d"
    Run.objects.exclude(run_id="source").delete()


def test_a_legacy_binary_part_is_taken(client: Client):
    part = {"type": "binary", "mimeType": "image/png", "data": "aGk="}
    message = {"id": "u1", "role": "user", "content": [{"type": "text", "text": "see"}, part]}
    assert events(post(client, "/agent/", "r1", [message]))[-1]["type"] == "RUN_FINISHED"
    Run.objects.filter(run_id="r1").delete()


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/xml"],
)
@pytest.mark.parametrize("url", ROUTES)
def test_another_content_type_is_refused(client: Client, url: str, content_type: str):
    response = raw(client, json.dumps(run_input()).encode(), url, content_type)
    assert error(response) == (415, "unsupported_media_type")


def test_a_charset_beside_the_content_type_is_no_matter(client: Client):
    response = raw(client, json.dumps(run_input("r1")).encode(), content_type="application/json; charset=utf-8")
    frames(response)
    Run.objects.filter(run_id="r1").delete()


class Endless(io.RawIOBase):
    """A body of `size` spaces."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        taken = min(self.left, size)
        self.left -= taken
        return b" " * taken


def test_C31_a_100_MB_body_is_refused_without_being_held(client: Client):
    body = Endless(100_000_000)
    source = {"wsgi.input": body, "CONTENT_LENGTH": str(body.left), "CONTENT_TYPE": "application/json"}
    tracemalloc.start()
    try:
        response = client.generic("POST", "/agent/", b"", **source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error(response) == (413, "body_too_large")
    assert peak < 15 * 1024 * 1024
    assert body.left == 0


def test_C31_the_limit_is_ours_not_that_of_the_project(client: Client, settings: Settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    text = "x" * 3_000_000
    assert events(post(client, "/agent/", "r1", text))[-1]["type"] == "RUN_FINISHED"
    settings.DJANGO_AG_UI = {"MAX_BODY_BYTES": 1000}
    response = post(client, "/agent/", "r2", text)
    assert error(response) == (413, "body_too_large")
    assert "1000 bytes" in response.json()["error"]
    Run.objects.filter(run_id="r1").delete()


def test_C31_a_middleware_that_read_the_body_before_is_no_matter(client: Client, settings: Settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.api.middleware.read_body"]
    frames(post(client, "/agent/", "r1"))
    settings.DJANGO_AG_UI = {"MAX_BODY_BYTES": 20}
    assert error(post(client, "/agent/", "r2")) == (413, "body_too_large")
    Run.objects.filter(run_id="r1").delete()


def test_C31_200_000_messages_are_refused_with_the_limit(client: Client):
    body = json.dumps(run_input(messages=[{"id": "1", "role": "user", "content": "x"}] * 200_000)).encode()
    assert len(body) < 10 * 1024 * 1024
    response = raw(client, body)
    assert error(response) == (413, "too_many_messages")
    assert "10000 messages" in response.json()["error"]


def chunked(client: Client, body: bytes, **environ: Any) -> Any:
    """Post as a server hands over what came without a Content-Length."""
    source = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": "", "CONTENT_TYPE": "application/json"}
    return client.generic("POST", "/agent/", b"", **source, **environ)


def test_C31_a_chunked_body_is_read_where_the_server_marks_its_end(client: Client, settings: Settings):
    body = json.dumps(run_input("r1")).encode()
    assert events(chunked(client, body, **{"wsgi.input_terminated": True}))[-1]["type"] == "RUN_FINISHED"
    settings.DJANGO_AG_UI = {"MAX_BODY_BYTES": 20}
    assert error(chunked(client, body, **{"wsgi.input_terminated": True})) == (413, "body_too_large")
    assert error(chunked(client, body)) == (400, "invalid_input")
    Run.objects.filter(run_id="r1").delete()


@pytest.mark.parametrize(
    "path", ["nowhere/", "runs", "runs/a/b/", "resume/", "fork/x/y/", "a%0Ab", "threads/", "tools"]
)
@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_an_unknown_route_below_the_mount_is_a_404_in_json(path: str, method: str, db: None):
    browser = Client(enforce_csrf_checks=True)
    assert error(getattr(browser, method)(f"/agent/{path}")) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "url", "allowed"),
    [
        ("get", "/agent/", "POST"),
        ("delete", "/agent/", "POST"),
        ("options", "/agent/", "POST"),
        ("post", "/agent/runs/", "GET, HEAD"),
        ("patch", "/agent/runs/source/", "GET, HEAD"),
        ("get", "/agent/resume/source/", "POST"),
        ("put", "/agent/tools/", "GET, HEAD"),
    ],
)
def test_a_method_that_a_route_does_not_have(client: Client, method: str, url: str, allowed: str):
    response = getattr(client, method)(url)
    assert error(response) == (405, "method_not_allowed")
    assert response["Allow"] == allowed


def test_what_is_wrong_is_named_without_repeating_what_was_posted(client: Client):
    response = post(client, "/agent/", messages=[{"id": "1", "role": "secret-role", "content": ""}])
    assert "messages.0" in response.json()["error"]
    assert "secret-role" not in response.json()["error"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.anyio
async def test_C31_a_chunked_body_under_asgi_is_read_and_limited(live: None, settings: Settings):
    from django.contrib.auth.models import User

    user = await User.objects.aget(username="ada")
    browser = AsyncClient()
    await browser.aforce_login(user)
    settings.DJANGO_AG_UI = {"MAX_BODY_BYTES": 1000}
    body = json.dumps(run_input("r1", [user_message("x" * 2000)]))
    response = await browser.post("/agent/", body, content_type="application/json", headers={"Content-Length": ""})
    assert error(response) == (413, "body_too_large")
