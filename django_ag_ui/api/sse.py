"""Event streams: framing, keep-alives, what closes them, and what viewers older than AG-UI 1.0 get."""

import json
import logging
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, closing
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from django_ag_ui.api.pace import ViewerPace
from django_ag_ui.conf import AGUIConfig
from django_pydantic_agent.connections import release_connections
from django_pydantic_agent.runs.drain import drain_on_sigterm

if TYPE_CHECKING:
    from django_ag_ui.api.access import Access
    from django_pydantic_agent.runs.follow import Follower
    from django_pydantic_agent.runs.follow_thread import ThreadFollower
    from django_pydantic_agent.runs.live_log import Batch

logger = logging.getLogger("django_ag_ui")

KEEP_ALIVE = b": keep-alive\n\n"
DETACHED = b'{"type":"RUN_ERROR","message":"The stream was closed; the run goes on.","code":"detached"}'
NOT_KEPT = b'{"type":"RUN_ERROR","message":"The stream was closed; the rest of it is not kept.","code":"detached"}'
REVOKED = b'{"type":"RUN_ERROR","message":"You may not follow this run any more.","code":"access_revoked"}'
HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    # Keeps GZipMiddleware, which would hold frames back, away.
    "Content-Encoding": "identity",
}
PIECE_BYTES = 256 * 1024
"""What is handed to the server at once, which keeps it until the viewer takes it."""


@cache
def _checkers() -> ThreadPoolExecutor:
    """Return the threads in which access is checked again."""
    return ThreadPoolExecutor(2, thread_name_prefix="ag-ui-access")


# A forked child has none of its parent's threads.
os.register_at_fork(after_in_child=_checkers.cache_clear)


def frame_without_id(event: bytes) -> bytes:
    """Return one event that is not part of a log, and so no place to resume from."""
    return b"data: %s\n\n" % event


def respond(request: HttpRequest, stream: "RunStream | FixedStream") -> StreamingHttpResponse:
    """Return the response that streams: asynchronously under ASGI, from a plain iterator under WSGI."""
    content = stream.asynchronous() if isinstance(request, ASGIRequest) else stream.blocking()
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=HEADERS)


def _id_prefix(run_id: str) -> bytes:
    return b"id: %s:" % quote(run_id, safe="").encode()


class FixedStream:
    """A stream of a few events, all known, without ids."""

    def __init__(self, events: Iterable[bytes]) -> None:
        self._body = b"".join(map(frame_without_id, events))

    async def asynchronous(self) -> AsyncIterator[bytes]:
        yield self._body

    def blocking(self) -> Iterator[bytes]:
        yield self._body


class RunStream:
    """What one viewer of a run is sent.

    `follow` takes the seconds of silence after which it reports back and returns a `Follower`. `resumes` says that the
    viewer comes back by itself when the stream just ends.
    """

    def __init__(
        self,
        run_id: str,
        follow: "Callable[[float], Follower | ThreadFollower]",
        *,
        access: "Access",
        config: AGUIConfig,
        is_older: bool,
        resumes: bool,
        max_seconds: float | None,
    ) -> None:
        self._prefix = _id_prefix(run_id)
        self._follow = follow
        self._access = access
        self._keep_alive = config.keep_alive_seconds
        self._max_seconds = max_seconds
        self._is_older = is_older
        self._resumes = resumes
        self._tick = min(
            config.keep_alive_seconds, config.access_recheck_seconds / 6, *([max_seconds / 10] if max_seconds else [])
        )
        # Two ticks early: one until the check is begun, one until its answer is seen.
        self._recheck = max(config.access_recheck_seconds - 2 * self._tick, self._tick)
        self._check: Future[bool] | None = None
        self._last_frame = b""
        self._farewell = DETACHED
        self._pace = ViewerPace(config.slow_viewer_seconds)

    async def asynchronous(self) -> AsyncIterator[bytes]:
        """Yield the stream on an event loop, the request's connections given back first."""
        # Servers set their handlers after the project was loaded, and wait for streams without having runs end.
        drain_on_sigterm()
        await sync_to_async(release_connections)()
        follower = self._begin()
        with self._pace:
            async with aclosing(aiter(follower)) as batches:
                try:
                    async for batch in batches:
                        for piece in self._pieces(batch):
                            self._pace.offer()
                            yield piece
                            self._pace.taken()
                        if self._is_over():
                            break
                finally:
                    follower.viewer.sent_away |= self._is_sent_away
            if end := self._end(follower):
                yield end

    def blocking(self) -> Iterator[bytes]:
        """Yield the stream in the thread of a WSGI request, its connections given back first."""
        release_connections()
        follower = self._begin()
        with closing(iter(follower)) as batches:
            try:
                for batch in batches:
                    for piece in self._pieces(batch):
                        self._pace.offer()
                        yield piece
                        self._pace.taken()
                    if self._is_over():
                        break
            finally:
                follower.viewer.sent_away |= self._is_sent_away
        if end := self._end(follower):
            yield end

    def _begin(self) -> "Follower | ThreadFollower":
        """Return what is followed, once: what it begins with may be long, and is not kept while the viewer waits."""
        self._began = self._now = self._checked = time.monotonic()
        # Where nothing is there yet, a comment goes out at once, and with it the head of the response.
        self._sent = -math.inf
        follower = self._follow(self._tick)
        del self._follow
        return follower

    def _pieces(self, batch: "Batch") -> Iterator[bytes]:
        """Yield the batch on the wire, in one piece unless it is large."""
        chunk = self._chunk(batch)
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]

    def _chunk(self, batch: "Batch") -> bytes:
        """Return the batch on the wire; a comment or nothing where it holds no frames."""
        frames, seq = batch.frames, batch.first_seq
        prefix = self._prefix if batch.run_id is None else _id_prefix(batch.run_id)
        self._now = time.monotonic()
        if not frames:
            if self._now - self._sent < self._keep_alive - self._tick / 2:
                return b""
            self._sent = self._now
            return KEEP_ALIVE
        self._sent = self._now
        self._last_frame = frames[-1]
        if self._is_older:
            frames = [for_older_viewer(frame) for frame in frames]
        if batch.is_preamble:
            *others, last = frames
            return b"".join([*map(frame_without_id, others), b"%s%d\ndata: %s\n\n" % (prefix, seq, last)])
        return b"".join([b"%s%d\ndata: %s\n\n" % (prefix, seq, frame) for seq, frame in enumerate(frames, seq)])

    def _is_over(self) -> bool:
        """Return whether the viewer has to go, and look after the check of its access."""
        if self._is_sent_away:
            return True
        if self._check is None:
            if self._now - self._checked >= self._recheck:
                self._check = _checkers().submit(self._access.holds)
        elif self._check.done():
            if not self._check.result():
                self._farewell = REVOKED
                return True
            self._check, self._checked = None, self._now
        return False

    @property
    def _is_sent_away(self) -> bool:
        """Whether the viewer is too slow, or has been there for as long as a stream may last."""
        is_old = self._max_seconds is not None and self._now - self._began >= self._max_seconds
        return is_old or self._pace.is_too_slow

    def _end(self, follower: "Follower | ThreadFollower") -> bytes | None:
        """Return what a viewer is told whose stream ends before the run does."""
        from django_pydantic_agent.log.frames import is_terminal

        if is_terminal(self._last_frame) or not self._last_frame:
            return None
        if self._farewell is DETACHED and self._resumes:
            return None
        if self._farewell is DETACHED and follower.viewer.misses_rest:
            self._farewell = NOT_KEPT
        self._pace.offer()
        return frame_without_id(self._farewell)


def max_stream_seconds(request: HttpRequest, config: AGUIConfig) -> float | None:
    """Return how long a stream may last: a WSGI worker without threads serves nobody else meanwhile."""
    longest = config.max_stream_seconds or None
    if isinstance(request, ASGIRequest) or request.META.get("wsgi.multithread", True):
        return longest
    _warn_of_single_thread(config.wsgi_max_stream_seconds)
    return min(longest or config.wsgi_max_stream_seconds, config.wsgi_max_stream_seconds)


@cache
def _warn_of_single_thread(seconds: float) -> None:
    logger.warning("This WSGI worker has no threads; streams are cut after %g seconds. Use gthread or ASGI.", seconds)


def declares_1_0(version: str | None) -> bool:
    """Return whether a viewer that declares this protocol version reads AG-UI 1.0.

    A version that is newer or cannot be interpreted counts as one that does, as the protocol says.
    """
    return bool(version and not re.fullmatch(r"0+\.[0-9]+", version))


_MAY_DIFFER = re.compile(rb'\{"type":"(?:RUN_STARTED|RUN_FINISHED|MESSAGES_SNAPSHOT|TOOL_CALL_RESULT)"')
_DIFFERS = re.compile(rb'"type":"(?:cancelled|file)"|"pendingToolCallIds":|"content":\[')


def for_older_viewer(frame: bytes) -> bytes:
    """Return a frame without the four things of AG-UI 1.0 that break the clients before it."""
    if not _MAY_DIFFER.match(frame) or not _DIFFERS.search(frame):
        return frame
    event = json.loads(frame)
    match event["type"]:
        case "RUN_FINISHED":
            outcome = event.get("outcome", {})
            outcome.pop("pendingToolCallIds", None)
            if outcome.get("type") == "cancelled":
                del event["outcome"]
        case "TOOL_CALL_RESULT":
            event["content"] = _joined_text(event["content"])
        case "MESSAGES_SNAPSHOT":
            _rewrite_messages(event["messages"])
        case "RUN_STARTED":
            _rewrite_messages(event.get("input", {}).get("messages", []))
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def _rewrite_messages(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            message["content"] = (
                _joined_text(content) if message["role"] == "tool" else [_older_part(part) for part in content]
            )


def _joined_text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _older_part(part: dict[str, Any]) -> dict[str, Any]:
    source = part.get("source", {})
    if source.get("type") != "file":
        return part
    return {
        "type": "binary",
        "mimeType": source.get("mimeType", "application/octet-stream"),
        "id": source["value"],
    }
