"""Listing, showing and stopping runs."""

from hashlib import sha256
from typing import Any

from django.http import HttpResponseBase
from django.utils.cache import get_conditional_response
from rest_framework.request import Request
from rest_framework.response import Response

from django_ag_ui.api.exceptions import InvalidQuery, UnknownRun
from django_ag_ui.api.ledger import with_ledger
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.renderers import JSONRenderer
from django_ag_ui.api.serializers import run_detail, run_row
from django_ag_ui.api.views import AGUIView, search_text
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunQuery, StoredRun

# How long a request to stop a run waits for its end, in seconds.
STOP_SECONDS = 1.0


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
        titles = self.titles({run.thread_id for run in page.runs})
        rows = [
            run_row(run, mount=self.mount, with_steps=True, title=titles.get(run.thread_id))
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
        detail = show_run(self, find_run(self, run))
        etag = f'"{sha256(JSONRenderer().render(detail)).hexdigest()[:32]}"'
        response = Response(detail, headers={"ETag": etag})
        return get_conditional_response(request._request, etag=etag, response=response) or response


class CancelView(AGUIView):
    """Stops a run of the owner, in whatever process it executes; of one that has ended, cancels what it has asked."""

    http_method_names = ("post",)

    def post(self, request: Request, *, run: str, **kwargs: str) -> Response:
        from django_pydantic_agent.runs.engine import get_engine

        stored = find_run(self, run)
        if stored.status.is_live and get_engine().request_cancel(stored.key, store=self.run_store):
            get_engine().wait_ended(stored, store=self.run_store, seconds=STOP_SECONDS)
        elif stored.status is RunStatus.INTERRUPTED:
            get_engine().cancel_asked(stored, store=self.run_store, conversation=self.conversation)
        stored = find_run(self, run)
        return Response(show_run(self, stored), status=202 if stored.status.is_live else 200)


def find_run(view: AGUIView, segment: str) -> StoredRun:
    """Return the run that a path names; raises `UnknownRun` alike for what is foreign and what is not there."""
    stored = view.run_store.get(owner=view.owner, scope=view.scope, run_id=decode_id(segment))
    if stored is None or view.owner is None:
        raise UnknownRun
    return stored


def show_run(view: AGUIView, stored: StoredRun) -> dict[str, Any]:
    """Return a run as its own page shows it."""
    (stored,) = with_ledger(view.step_store, [stored])
    return run_detail(
        stored,
        mount=view.mount,
        with_steps=view.step_store is not None,
        title=view.titles([stored.thread_id]).get(stored.thread_id),
    )
