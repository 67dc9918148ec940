"""Starting, continuing, listing and looking at runs."""

import json
import random
import time
from collections.abc import Callable
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
from django_ag_ui.api.exceptions import (
    ApprovalsUnavailable,
    InvalidQuery,
    RunGone,
    RunIdReused,
    ThreadContended,
    UnknownRun,
)
from django_ag_ui.api.ledger import has_open_end, with_ledger
from django_ag_ui.api.parsers import read_run_input
from django_ag_ui.api.paths import decode_id, mount_url
from django_ag_ui.api.renderers import EventStreamRenderer, JSONRenderer
from django_ag_ui.api.serializers import run_detail, run_row
from django_ag_ui.api.sse import FixedStream, RunStream, declares_1_0, max_stream_seconds, respond
from django_ag_ui.api.throttling import READ_SCOPE, RUN_SCOPE
from django_ag_ui.api.turns import PlannedTurn, ThreadPost
from django_ag_ui.api.views import AGUIView, search_text
from django_pydantic_agent.exceptions import InvalidInput, RunIdTaken, ThreadChanged
from django_pydantic_agent.runs.plan import RunPlan, ThreadPlan
from django_pydantic_agent.runs.request import KEPT_HEADERS, RunRequest
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunQuery, StoredRun
from django_pydantic_agent.threads.reconcile import Attach

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from django_pydantic_agent.threads.posture import ThreadView

# How often a turn is planned anew because the thread has changed, and the longest pause before, in seconds.
ATTEMPTS = 60
LONGEST_PAUSE = 0.1

MAX_PROTOCOL_CHARACTERS = 32
"""How much is kept of the protocol version that a client declares."""


class RunsView(AGUIView):
    """The owner's runs, newest first."""

    http_method_names = ("get", "head")

    def get(self, request: Request, **kwargs: str) -> Response:
        query = self._query(request)
        if self.owner is None:
            return Response({"runs": [], "next": None})
        try:
            page = self.run_store.page(owner=self.owner, scope=self.scope, query=query)
        except InvalidInput:
            raise InvalidQuery("cursor must be the next of an earlier page") from None
        mount = mount_url(request._request)
        titles = self.titles({run.thread_id for run in page.runs})
        rows = [
            run_row(run, mount=mount, with_steps=True, title=titles.get(run.thread_id))
            for run in with_ledger(self.step_store, page.runs)
        ]
        return Response({"runs": rows, "next": page.next})

    def _query(self, request: Request) -> RunQuery:
        asked = request.query_params
        if "status" in asked and asked["status"] not in RunStatus.values:
            raise InvalidQuery(f"status must be one of {', '.join(RunStatus.values)}")
        return RunQuery(
            thread_id=asked.get("thread_id"),
            status=asked.get("status"),
            text=search_text(request),
            cursor=asked.get("cursor"),
            limit=self.server.config.run_list_limit,
        )


class RunView(AGUIView):
    """One run of the owner."""

    http_method_names = ("get", "head")

    def get(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        stored = find_run(self, run)
        (stored,) = with_ledger(self.step_store, [stored])
        detail = run_detail(
            stored,
            mount=mount_url(request._request),
            with_steps=self.step_store is not None,
            title=self.titles([stored.thread_id]).get(stored.thread_id),
        )
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
        earlier = self._find_earlier()
        return READ_SCOPE if earlier and earlier.digest == self.digest else RUN_SCOPE

    def start(
        self, accepted: "RunAgentInput", *, source: StoredRun | None = None, thread: ThreadPlan | None = None
    ) -> StoredRun:
        """Start the run, or return the one that this post started before; raises `RunIdTaken` for other posts."""
        from django_pydantic_agent.runs.engine import get_engine

        self._check_frontend_tools()
        plan = RunPlan(
            config=self.server.agent_config,
            request=self.run_request,
            run_input=accepted,
            store=self.run_store,
            digest=self.digest,
            scope=self.scope,
            source=source,
            protocol=(self.protocol or "")[:MAX_PROTOCOL_CHARACTERS],
            thread=thread,
        )
        try:
            return get_engine().start(plan)
        except RunIdTaken as taken:
            return self._own(taken)

    def start_in_thread(
        self, plan: "Callable[[ThreadView | None], PlannedTurn | Attach]", *, source: StoredRun | None = None
    ) -> StoredRun:
        """Start, or find, the run that `plan` makes of the thread, which is asked again where the thread has changed.

        Raises what `start` raises, and `ThreadContended` where the thread keeps changing.
        """
        from django_pydantic_agent.runs.engine import get_engine

        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, min(attempt / 100, LONGEST_PAUSE)))  # noqa: S311
            thread = self.thread_post.view()
            # Behind the thread: if an earlier try of this post has changed it, its run is there too.
            if (earlier := self._find_earlier()) is not None:
                return self._own(RunIdTaken(earlier))
            planned = plan(thread)
            if isinstance(planned, Attach):
                return self._shown(planned.run)
            try:
                run = self.start(planned.run_input, source=source, thread=planned.thread)
            except ThreadChanged:
                continue
            for key in planned.stops:
                get_engine().request_cancel(key, store=self.run_store)
            return run
        raise ThreadContended

    @cached_property
    def thread_post(self) -> ThreadPost:
        """This post as one to a thread; only where there is a conversation store."""
        assert self.conversation is not None  # noqa: S101
        assert self.owner is not None  # noqa: S101
        return ThreadPost(
            conversation=self.conversation,
            owner=self.owner,
            posted=self.posted[1],
            policy=self.server.thread_policy,
            if_match=self.request.headers.get("If-Match"),
        )

    def _check_frontend_tools(self) -> None:
        if tools := self.posted[1].tools:
            from django_pydantic_agent.agents.build import check_frontend_tools

            config = self.server.agent_config
            check_frontend_tools([tool.name for tool in tools], config.source, toolsets=config.toolsets)

    def _find_earlier(self) -> StoredRun | None:
        return self.run_store.get(owner=self.owner, scope=self.scope, run_id=self.posted[1].run_id)

    def _own(self, taken: RunIdTaken) -> StoredRun:
        """Return the run that has the id of this post, if this post has started it."""
        if isinstance(taken.run, StoredRun) and taken.run.digest == self.digest:
            return taken.run
        raise taken

    def _shown(self, key: int) -> StoredRun:
        run = self.run_store.by_key(key, owner=self.owner)
        if run is None:
            raise RunGone
        return run

    @cached_property
    def run_request(self) -> RunRequest:
        """What the run keeps of this request."""
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
    """Start a run from a whole transcript, or from what that adds to a thread."""

    def post(self, request: Request, **kwargs: str) -> HttpResponseBase:
        from django_pydantic_agent.log.accept import accept_transcript

        self.refuse_resume_entries()
        try:
            if self.conversation is None:
                run = self.start(accept_transcript(self.posted[1]))
            else:
                run = self.start_in_thread(self.thread_post.plan)
        except RunIdTaken:
            raise RunIdReused from None
        return self.stream(run)


class ContinueView(StartView):
    """Start a run from the last complete snapshot of another; `resume/` and `fork/` do the same."""

    def post(self, request: Request, *, run: str, **kwargs: str) -> HttpResponseBase:
        source = self._source(run)
        self.refuse_resume_entries()
        try:
            started = self._continue(source)
        except RunIdTaken:
            return respond(request._request, FixedStream(self._refusal()))
        return self.stream(started)

    def _continue(self, source: StoredRun) -> StoredRun:
        from django_pydantic_agent.log.accept import accept_continuation

        def open_end() -> bool:
            return has_open_end(self.step_store, source.run_id)

        if self.conversation is None:
            known_ids = self.run_store.lineage_message_ids(source.key)
            return self.start(
                accept_continuation(self.posted[1], known_ids=known_ids, open_end=open_end), source=source
            )

        def plan(thread: "ThreadView | None") -> PlannedTurn:
            return self.thread_post.continuation(thread, source, store=self.run_store, open_end=open_end)

        return self.start_in_thread(plan, source=source)

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
