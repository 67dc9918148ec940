"""Starting, continuing, listing and looking at runs."""

import json
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.cache import get_conditional_response
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from django_ag_ui.api.access import Access
from django_ag_ui.api.authentication import ask, loaded
from django_ag_ui.api.exceptions import ApprovalsUnavailable, InvalidQuery, RunIdReused, UnknownRun
from django_ag_ui.api.ledger import has_open_end, with_ledger
from django_ag_ui.api.parsers import read_run_input
from django_ag_ui.api.paths import decode_id, mount_url
from django_ag_ui.api.renderers import EventStreamRenderer, JSONRenderer
from django_ag_ui.api.serializers import run_detail, run_row
from django_ag_ui.api.sse import FixedStream, RunStream, declares_1_0, max_stream_seconds, respond
from django_ag_ui.api.throttling import READ_SCOPE, RUN_SCOPE
from django_ag_ui.api.views import AGUIView
from django_pydantic_agent.exceptions import InvalidInput, RunIdTaken
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.request import KEPT_HEADERS, RunRequest
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunQuery, StoredRun

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


class RunsView(AGUIView):
    """The owner's runs, newest first."""

    http_method_names = ("get", "head")

    def get(self, request: Request, **kwargs: str) -> Response:
        query = self._query(request)
        if self.owner is None:
            return Response({"runs": [], "next": None})
        try:
            page = self.run_store.page(owner=self.owner, scope=self.scope, query=query)
        except ValueError:
            raise InvalidQuery("cursor must be the next of an earlier page") from None
        mount = mount_url(request._request)
        rows = [run_row(run, mount=mount, with_steps=True) for run in with_ledger(self.step_store, page.runs)]
        return Response({"runs": rows, "next": page.next})

    def _query(self, request: Request) -> RunQuery:
        asked = request.query_params
        if "status" in asked and asked["status"] not in RunStatus.values:
            raise InvalidQuery(f"status must be one of {', '.join(RunStatus.values)}")
        return RunQuery(
            thread_id=asked.get("thread_id"),
            status=asked.get("status"),
            text=asked.get("q"),
            cursor=asked.get("cursor"),
            limit=self.server.config.run_list_limit,
        )


class RunView(AGUIView):
    """One run of the owner."""

    http_method_names = ("get", "head")

    def get(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        stored = find_run(self, run)
        (stored,) = with_ledger(self.step_store, [stored])
        detail = run_detail(stored, mount=mount_url(request._request), with_steps=self.step_store is not None)
        etag = f'"{sha256(JSONRenderer().render(detail)).hexdigest()[:32]}"'
        response = Response(detail, headers={"ETag": etag})
        return get_conditional_response(request._request, etag=etag, response=response) or response


def find_run(view: AGUIView, segment: str) -> StoredRun:
    """Return the run that a path names; raises `UnknownRun` alike for what is foreign and what is not there."""
    stored = view.run_store.get(owner=view.owner, scope=view.scope, run_id=decode_id(segment))
    if stored is None or view.owner is None:
        raise UnknownRun
    return stored


class StartView(AGUIView):
    """A route that takes a `RunAgentInput` and answers with the stream of the run that it starts."""

    http_method_names = ("post",)
    renderer_classes = (JSONRenderer, EventStreamRenderer)

    @property
    def posted(self) -> "tuple[bytes, RunAgentInput]":
        """The raw body and the valid input in it; raises what is wrong with them each time it is asked."""
        if isinstance(self._reading, Exception):
            raise self._reading
        return self._reading

    @cached_property
    def _reading(self) -> "tuple[bytes, RunAgentInput] | Exception":
        try:
            return read_run_input(self.request._request, self.server.config)
        except (APIException, InvalidInput) as error:
            return error

    @cached_property
    def digest(self) -> str:
        """What tells this post from others of the same run id: the kind of route, the source run, the raw body."""
        source = decode_id(self.kwargs["run"]).encode() if "run" in self.kwargs else b""
        digest = sha256(b"%d:%s:" % (len(source), source))
        digest.update(self.posted[0])
        return digest.hexdigest()

    @property
    def protocol(self) -> str | None:
        """The AG-UI version that the viewer declares, in the body or the query."""
        return self.posted[1].protocol_version or self.request.query_params.get("protocol")

    def get_throttle_scope(self) -> str:
        if isinstance(self._reading, Exception):
            return RUN_SCOPE
        run_id = self._reading[1].run_id
        earlier = self.run_store.get(owner=self.owner, scope=self.scope, run_id=run_id)
        return READ_SCOPE if earlier and earlier.digest == self.digest else RUN_SCOPE

    def start(self, accepted: "RunAgentInput", *, source: StoredRun | None = None) -> StoredRun:
        """Start the run, or return the one that this post started before; raises `RunIdTaken` for other posts."""
        from django_pydantic_agent.runs.engine import get_engine

        plan = RunPlan(
            config=self.server.agent_config,
            request=self.run_request(),
            run_input=accepted,
            store=self.run_store,
            digest=self.digest,
            scope=self.scope,
            source=source,
            protocol=self.protocol or "",
        )
        try:
            return get_engine().start(plan)
        except RunIdTaken as taken:
            if isinstance(taken.run, StoredRun) and taken.run.digest == self.digest:
                return taken.run
            raise

    def run_request(self) -> RunRequest:
        """Return what the run keeps of this request."""
        request = self.request._request
        body, run_input = self.posted
        context = self.server.context_for_request and ask(self.server.context_for_request, request)
        return RunRequest(
            user=loaded(self.request.user),
            owner=self.owner,
            run_id=run_input.run_id,
            thread_id=run_input.thread_id,
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items() if name.lower() in KEPT_HEADERS},
            body=body,
            request_context=json.loads(json.dumps(context)),
        )

    def stream(self, run: StoredRun) -> StreamingHttpResponse:
        """Return the response that follows `run` from its first event on."""
        from django_pydantic_agent.runs.engine import get_engine

        request, config, store = self.request._request, self.server.config, self.run_store
        stream = RunStream(
            run.run_id,
            lambda idle_seconds: get_engine().follow(run, store=store, idle_seconds=idle_seconds),
            access=Access(self),
            config=config,
            is_older=not declares_1_0(self.protocol),
            resumes=self._resumes(run),
            max_seconds=max_stream_seconds(request, config),
        )
        return respond(request, stream)

    def _resumes(self, run: StoredRun) -> bool:
        """Return whether the viewer has shown that it comes back by itself with a cursor."""
        headers = self.request.headers
        return (
            "Last-Event-ID" in headers
            or "after" in self.request.query_params
            or headers.get("X-AGUI-Resume") == "1"
            or headers.get("X-Run-Id") == run.run_id
        )

    def refuse_resume_entries(self) -> None:
        if self.posted[1].resume:
            raise ApprovalsUnavailable


class AgentView(StartView):
    """Start a run from a whole transcript."""

    def post(self, request: Request, **kwargs: str) -> HttpResponseBase:
        from django_pydantic_agent.log.accept import accept_transcript

        self.refuse_resume_entries()
        try:
            run = self.start(accept_transcript(self.posted[1]))
        except RunIdTaken:
            raise RunIdReused from None
        return self.stream(run)


class ContinueView(StartView):
    """Start a run from the last complete snapshot of another; `resume/` and `fork/` do the same."""

    def post(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        from django_pydantic_agent.log.accept import accept_continuation

        source = self._source(run)
        self.refuse_resume_entries()
        accepted = accept_continuation(
            self.posted[1],
            known_ids=self.run_store.lineage_message_ids(source.key),
            open_end=lambda: has_open_end(self.step_store, source.run_id),
        )
        try:
            started = self.start(accepted, source=source)
        except RunIdTaken:
            return respond(request._request, FixedStream(self._refusal()))
        return self.stream(started)

    def _source(self, segment: str) -> StoredRun:
        (source,) = with_ledger(self.step_store, [find_run(self, segment)])
        if not source.continuable:
            raise UnknownRun
        return source

    def _refusal(self) -> list[bytes]:
        """Return the events that tell, in a stream of its own, that the run id was used before."""
        from ag_ui.core import PROTOCOL_VERSION, RunErrorEvent, RunStartedEvent

        from django_pydantic_agent.log.frames import encode

        run_input = self.posted[1]
        started = RunStartedEvent(
            thread_id=run_input.thread_id, run_id=run_input.run_id, protocol_version=PROTOCOL_VERSION
        )
        message = f"Run id {run_input.run_id!r} was used before; a run id is single-shot, so send a fresh one."
        return [encode(started), encode(RunErrorEvent(message=message, code="run_id_reused"))]
