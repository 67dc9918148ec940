import json
import time
from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import AsyncRequestFactory, RequestFactory

from django_ag_ui.api.sse import PIECE_BYTES, RunStream, declares_1_0, for_older_viewer, max_stream_seconds
from django_ag_ui.conf import build_ag_ui_config
from django_pydantic_agent.runs.live_log import Batch
from tests.api.posting import parse

STARTED = b'{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}'
DELTA = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"x"}'
FINISHED = b'{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}'


class Batches:
    """A follower that yields the batches of a test, and what the test does between them."""

    def __init__(self, *batches: Any) -> None:
        self.batches = batches
        self.left = False
        self.viewer = SimpleNamespace(sent_away=False, misses_rest=False)

    def __iter__(self) -> Iterator[Batch]:
        try:
            for batch in self.batches:
                if callable(batch):
                    batch()
                else:
                    yield batch
        finally:
            self.left = True

    async def __aiter__(self) -> AsyncIterator[Batch]:
        try:
            for batch in self.batches:
                if callable(batch):
                    batch()
                else:
                    yield batch
        finally:
            self.left = True


class Access:
    """Access that is lost when it is asked for the last time."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def holds(self) -> bool:
        self.times -= 1
        return self.times > 0


def stream(*batches: Any, run_id: str = "r1", access: Access | None = None, **options: Any) -> RunStream:
    config = build_ag_ui_config(
        keep_alive_seconds=options.pop("keep_alive", 15),
        access_recheck_seconds=options.pop("recheck", 30),
        slow_viewer_seconds=options.pop("slow", 60),
    )
    follower = batches[0] if isinstance(batches[0], Batches) else Batches(*batches)
    defaults = {"is_older": False, "resumes": False, "max_seconds": None}
    return RunStream(run_id, lambda seconds: follower, access=access or Access(), config=config, **defaults | options)


def test_a_batch_goes_out_in_one_chunk_of_frames_with_ids():
    chunks = list(stream(Batch(1, [STARTED, DELTA]), Batch(3, [FINISHED])).blocking())
    assert chunks == [
        b"id: r1:1\ndata: " + STARTED + b"\n\nid: r1:2\ndata: " + DELTA + b"\n\n",
        b"id: r1:3\ndata: " + FINISHED + b"\n\n",
    ]


@pytest.mark.parametrize("run_id", ["a/b", "ä:1", "a b", "100%", "🎈"])
def test_ids_are_quoted_so_that_any_client_can_send_them_back(run_id: str):
    (chunk,) = stream(Batch(1, [FINISHED]), run_id=run_id).blocking()
    assert chunk.isascii()
    (frame,) = parse(chunk)
    assert (frame.run_id, frame.seq) == (run_id, 1)


@pytest.mark.anyio
async def test_the_asynchronous_stream_is_the_blocking_one():
    batches = [Batch(1, [STARTED]), Batch(2, [DELTA]), Batch(3), Batch(3, [FINISHED])]
    assert [chunk async for chunk in stream(*batches).asynchronous()] == list(stream(*batches).blocking())


@pytest.mark.anyio
async def test_a_viewer_that_leaves_lets_go_of_the_follower():
    follower = Batches(Batch(1, [STARTED]), Batch(2, [DELTA]))
    content = stream(follower).asynchronous()
    await anext(content)
    await content.aclose()
    assert follower.left


def test_C01_silence_is_filled_with_comments_that_carry_no_id():
    chunks = list(stream(Batch(1, [STARTED]), Batch(2), Batch(2), Batch(2, [FINISHED]), keep_alive=1e-9).blocking())
    assert chunks[1:3] == [b": keep-alive\n\n"] * 2
    assert [frame.seq for frame in parse(b"".join(chunks))] == [1, None, None, 2]


def test_C01_a_wake_up_before_the_silence_is_long_enough_sends_nothing():
    chunks = list(stream(Batch(1, [STARTED]), Batch(2), Batch(2, [FINISHED])).blocking())
    assert len(chunks) == 2


def test_a_stream_that_ends_before_its_run_says_so_once():
    found = parse(b"".join(stream(Batch(1, [STARTED, DELTA])).blocking()))
    assert (found[-1].id, found[-1].event["type"], found[-1].event["code"]) == (None, "RUN_ERROR", "detached")
    assert len(found) == 3


def test_a_stream_whose_rest_is_not_kept_does_not_say_that_the_run_goes_on():
    follower = Batches(Batch(1, [STARTED, DELTA]))
    follower.viewer.misses_rest = True
    event = parse(b"".join(stream(follower).blocking()))[-1].event
    assert (event["code"], "goes on" in event["message"]) == ("detached", False)


def test_a_viewer_that_resumes_is_just_closed():
    assert len(parse(b"".join(stream(Batch(1, [STARTED, DELTA]), resumes=True).blocking()))) == 2


def test_nothing_follows_the_terminal_event():
    assert parse(b"".join(stream(Batch(1, [STARTED, FINISHED])).blocking()))[-1].event["type"] == "RUN_FINISHED"


def test_a_stream_of_a_worker_without_threads_is_cut_after_its_time():
    batches = (Batch(1, [STARTED]), lambda: time.sleep(0.02), Batch(2), Batch(2, [FINISHED]))
    found = parse(b"".join(stream(*batches, max_seconds=0.01).blocking()))
    assert [frame.event["type"] for frame in found] == ["RUN_STARTED", "RUN_ERROR"]


def test_access_is_asked_again_while_a_stream_is_open_and_its_loss_ends_the_stream():
    access = Access(times=3)
    follower = Batches(Batch(1, [STARTED]), *repeat(Batch(2), 100_000), Batch(2, [DELTA]))
    found = parse(b"".join(stream(follower, access=access, recheck=1e-9).blocking()))
    assert [(frame.id, frame.event.get("code")) for frame in found] == [("r1:1", None), (None, "access_revoked")]
    assert access.times == 0
    assert follower.left


@pytest.mark.parametrize(
    ("limit", "has_threads", "seconds"),
    [(0, True, None), (0, False, 20), (5, True, 5), (5, False, 5), (60, True, 60), (60, False, 20)],
)
def test_C03_a_wsgi_worker_without_threads_is_limited_whatever_the_project_allows(
    limit: float, has_threads: bool, seconds: float | None
):
    config = build_ag_ui_config(max_stream_seconds=limit)
    request = RequestFactory().post("/", **{"wsgi.multithread": has_threads})
    assert max_stream_seconds(request, config) == seconds
    assert max_stream_seconds(AsyncRequestFactory().post("/"), config) == (limit or None)


def test_a_large_batch_goes_out_in_pieces_of_bounded_size():
    large = DELTA.replace(b"x", b"x" * 3 * PIECE_BYTES)
    chunks = list(stream(Batch(1, [STARTED, large, DELTA, FINISHED])).blocking())
    assert [len(chunk) for chunk in chunks[:3]] == [PIECE_BYTES] * 3
    assert [frame.seq for frame in parse(b"".join(chunks))] == [1, 2, 3, 4]


def test_a_viewer_that_was_too_slow_is_told_behind_a_whole_frame():
    large = DELTA.replace(b"x", b"x" * PIECE_BYTES)
    follower = Batches(Batch(1, [STARTED, large]), Batch(3, [FINISHED]))
    chunks = []
    for chunk in stream(follower, slow=1e-9).blocking():
        chunks.append(chunk)
        time.sleep(1e-6)
    found = parse(b"".join(chunks))
    assert [(frame.seq, frame.event.get("code")) for frame in found] == [(1, None), (2, None), (None, "detached")]
    assert (follower.left, follower.viewer.sent_away) == (True, True)


def test_a_viewer_that_lost_its_access_was_not_sent_away_to_come_back():
    follower = Batches(Batch(1, [STARTED]), *repeat(Batch(2), 100_000))
    list(stream(follower, access=Access(times=1), recheck=1e-9).blocking())
    assert not follower.viewer.sent_away


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        (None, False),
        ("", False),
        ("0.9", False),
        ("00.9", False),
        ("1.0", True),
        ("1.4", True),
        ("2.0", True),
        ("10.0", True),
        ("next", True),
        ("9" * 5_000 + ".0", True),
        ("0." + "9" * 5_000, False),
    ],
)
def test_a_newer_or_strange_version_counts_as_1_0(version: str | None, is_known: bool):
    assert declares_1_0(version) is is_known


def rewritten(event: dict[str, Any]) -> Any:
    return json.loads(for_older_viewer(json.dumps(event, separators=(",", ":")).encode()))


def finished(outcome: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": outcome}


FILE = {"type": "image", "source": {"type": "file", "value": "f-1", "mimeType": "image/png"}}
BINARY = {"type": "binary", "mimeType": "image/png", "id": "f-1"}
TEXTS = [{"type": "text", "text": "one"}, FILE, {"type": "text", "text": "two"}]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (finished({"type": "cancelled"}), {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}),
        (finished({"type": "success", "pendingToolCallIds": ["c1"]}), finished({"type": "success"})),
        (
            {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": TEXTS},
            {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "one\ntwo"},
        ),
        (
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [
                    {"id": "u", "role": "user", "content": TEXTS},
                    {"id": "t", "role": "tool", "toolCallId": "c", "content": TEXTS},
                    {"id": "a", "role": "assistant", "content": "as it was"},
                ],
            },
            {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [
                    {"id": "u", "role": "user", "content": [TEXTS[0], BINARY, TEXTS[2]]},
                    {"id": "t", "role": "tool", "toolCallId": "c", "content": "one\ntwo"},
                    {"id": "a", "role": "assistant", "content": "as it was"},
                ],
            },
        ),
        (
            {"type": "RUN_STARTED", "input": {"messages": [{"id": "u", "role": "user", "content": [FILE]}]}},
            {"type": "RUN_STARTED", "input": {"messages": [{"id": "u", "role": "user", "content": [BINARY]}]}},
        ),
    ],
)
def test_what_breaks_older_viewers_is_rewritten(event: dict[str, Any], expected: dict[str, Any]):
    assert rewritten(event) == expected


@pytest.mark.parametrize(
    "event",
    [
        finished({"type": "interrupt", "interrupts": [{"id": "i", "reason": "approval"}]}),
        finished({"type": "success"}),
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": '"type":"file" "content":['},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": '"pendingToolCallIds":'},
        {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"},
        {"type": "CUSTOM", "name": "n", "value": {"type": "file", "content": [1]}},
    ],
)
def test_everything_else_is_the_same_for_every_viewer(event: dict[str, Any]):
    frame = json.dumps(event, separators=(",", ":")).encode()
    assert for_older_viewer(frame) == frame
