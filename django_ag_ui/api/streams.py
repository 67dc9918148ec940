"""What a viewer of a run is answered: its stream from the beginning, behind a cursor, or from a preamble on."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from django.http import HttpResponseBase
from rest_framework.exceptions import APIException
from rest_framework.response import Response

from django_ag_ui.api.access import Access
from django_ag_ui.api.cursors import Cursor
from django_ag_ui.api.parsers import read_run_input
from django_ag_ui.api.paths import encode_id
from django_ag_ui.api.renderers import EventStreamRenderer, JSONRenderer
from django_ag_ui.api.sse import FixedStream, RunStream, declares_1_0, max_stream_seconds, respond
from django_ag_ui.api.views import AGUIView
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.stores.base import StoredRun

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from django_pydantic_agent.log.preamble import Preamble
    from django_pydantic_agent.runs.follow import Follower
    from django_pydantic_agent.runs.follow_thread import ThreadFollower


class StreamView(AGUIView):
    """A route that answers with a stream."""

    renderer_classes = (JSONRenderer, EventStreamRenderer)

    @property
    def protocol(self) -> str | None:
        """The AG-UI version that the viewer declares."""
        return self.request.query_params.get("protocol")

    @cached_property
    def cursor(self) -> Cursor | None:
        """Where the viewer has stopped, None where it has seen nothing; raises `InvalidCursor`."""
        return Cursor.of(self.request)

    def attach(self, run: StoredRun) -> HttpResponseBase:
        """Return the stream of a run behind the viewer's cursor or, without one, from a preamble on."""
        return self.from_preamble(run) if self.cursor is None else self.behind(self.cursor, run)

    def behind(self, cursor: Cursor, run: StoredRun) -> HttpResponseBase:
        """Return the stream of what comes behind `cursor`; raises `InvalidCursor` or `CursorExpired`."""
        self.check_cursor(cursor, run)
        return self.empty() if cursor.is_at_end_of(run) else self.stream(run, after=cursor.seq)

    def check_cursor(self, cursor: Cursor, run: StoredRun) -> None:
        """Raise `InvalidCursor` or `CursorExpired` where `run` cannot be followed behind `cursor`."""
        url = f"{self.mount}runs/{encode_id(run.run_id)}/events/?from=snapshot"
        cursor.check(run, first_seq=self.run_store.first_seq(run.key), snapshot_url=url)

    def from_preamble(self, run: StoredRun) -> HttpResponseBase:
        """Return a stream that needs nothing before it: the run so far in few events, then what comes."""
        return self.stream(run, preamble=self.preamble(run))

    def preamble(self, run: StoredRun) -> "Preamble":
        from django_pydantic_agent.runs.attach import preamble

        return preamble(run, store=self.run_store, conversation=self.conversation)

    def stream(self, run: StoredRun, *, after: int = 0, preamble: "Preamble | None" = None) -> HttpResponseBase:
        """Return the stream of a run behind seq `after`, or behind `preamble`, which is sent first."""
        from django_pydantic_agent.runs.engine import get_engine

        store = self.run_store

        def follow(idle_seconds: float) -> "Follower":
            return get_engine().follow(run, store=store, after=after, preamble=preamble, idle_seconds=idle_seconds)

        return self.respond(follow, run)

    def respond(
        self, follow: "Callable[[float], Follower | ThreadFollower]", run: StoredRun | None
    ) -> HttpResponseBase:
        """Return the response that sends what `follow` brings, `run` first."""
        request, config = self.request._request, self.server.config
        stream = RunStream(
            run.run_id if run else "",
            follow,
            access=Access(self),
            config=config,
            is_older=not declares_1_0(self.protocol),
            resumes=self._resumes(run),
            max_seconds=max_stream_seconds(request, config),
        )
        return respond(request, stream)

    def empty(self) -> HttpResponseBase:
        """Return the end of a stream of which nothing is left: 204 stops an EventSource, and breaks who posts."""
        if self.request.method == "GET":
            return Response(status=204)
        return respond(self.request._request, FixedStream(()))

    def _resumes(self, run: StoredRun | None) -> bool:
        """Return whether the viewer has shown that it comes back by itself with a cursor."""
        headers = self.request.headers
        return (
            "Last-Event-ID" in headers
            or "after" in self.request.query_params
            or headers.get("X-AGUI-Resume") == "1"
            or (run is not None and headers.get("X-Run-Id") == run.run_id)
        )


class PostView(StreamView):
    """A route that takes a `RunAgentInput` and answers with a stream."""

    http_method_names = ("post",)

    def posted(self) -> "tuple[bytes, RunAgentInput]":
        """Return the raw body and the valid input in it; raises what is wrong with them each time it is asked."""
        if isinstance(self._reading, Exception):
            raise self._reading
        return self._reading

    @cached_property
    def _reading(self) -> "tuple[bytes, RunAgentInput] | Exception":
        try:
            return self.read_posted()
        except (APIException, InvalidInput) as error:
            return error

    def read_posted(self) -> "tuple[bytes, RunAgentInput]":
        """Return the raw body and the input in it; raises what is wrong with them."""
        return read_run_input(self.request._request, self.server.config)

    @property
    def protocol(self) -> str | None:
        """The AG-UI version that the viewer declares, in the body or the query."""
        return self.posted()[1].protocol_version or super().protocol
