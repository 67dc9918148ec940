"""Listing, showing, renaming, archiving and deleting threads."""

import json
from hashlib import sha256

from django.http import HttpResponseBase
from django.utils.cache import get_conditional_response
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from django_ag_ui.api.exceptions import InvalidQuery, UnknownThread
from django_ag_ui.api.parsers import MEDIA_TYPE, read_body
from django_ag_ui.api.paths import decode_id
from django_ag_ui.api.serializers import ThreadChanges, thread_changes, thread_detail, thread_row
from django_ag_ui.api.turns import check_revision
from django_ag_ui.api.views import AGUIView, flag, search_text
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.approvals import unexpired
from django_pydantic_agent.stores.conversations import StoredThread, ThreadQuery

MEDIA_TYPES = (MEDIA_TYPE, "application/merge-patch+json")


class ThreadsView(AGUIView):
    """The owner's threads, the one changed last first."""

    http_method_names = ("get", "head")

    def get(self, request: Request, **kwargs: str) -> Response:
        query = ThreadQuery(
            text=search_text(request),
            archived=flag(request, "archived"),
            cursor=request.query_params.get("cursor"),
            limit=self.server.config.thread_list_limit,
        )
        if self.conversation is None or self.owner is None:
            return Response({"threads": [], "next": None})
        try:
            page = self.conversation.page(owner=self.owner, query=query)
        except InvalidInput:
            raise InvalidQuery("cursor must be the next of an earlier page") from None
        return Response({"threads": [thread_row(thread) for thread in page.threads], "next": page.next})


class ThreadView(AGUIView):
    """One thread of the owner, with what its running turn has brought so far."""

    http_method_names = ("get", "head", "patch", "delete")

    def get(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseBase:
        return self._show(decode_id(thread), with_superseded=flag(request, "superseded"))

    def patch(self, request: Request, *, thread: str, **kwargs: str) -> HttpResponseBase:
        conversation, owner = self.place
        thread_id = decode_id(thread)
        revision = self._asked_revision(thread_id)
        changes = self._changes()
        if changes.title is not None:
            conversation.rename(owner=owner, thread_id=thread_id, title=changes.title, revision=revision)
            # The condition held when the first half was changed; the other half belongs to it.
            revision = None
        if changes.archived is not None:
            conversation.archive(owner=owner, thread_id=thread_id, archived=changes.archived, revision=revision)
        return self._show(thread_id, with_superseded=False)

    def delete(self, request: Request, *, thread: str, **kwargs: str) -> Response:
        from django_pydantic_agent.runs.engine import get_engine

        conversation, owner = self.place
        thread_id = decode_id(thread)
        revision = self._asked_revision(thread_id)
        for run in conversation.delete(owner=owner, thread_id=thread_id, revision=revision):
            get_engine().cancel(run, store=self.run_store)
        return Response(status=204)

    def _asked_revision(self, thread_id: str) -> int | None:
        """Return the revision at which alone the thread may be changed, None for any.

        Raises `UnknownThread`, or `OtherRevision` where the request has an If-Match header that does not fit already.
        """
        conversation, owner = self.place
        view = conversation.view(owner=owner, thread_id=thread_id)
        if view is None:
            raise UnknownThread
        if_match = self.request.headers.get("If-Match")
        check_revision(if_match, view.revision)
        return None if if_match is None or if_match.strip() == "*" else view.revision

    def _changes(self) -> ThreadChanges:
        request = self.request._request
        if request.content_type not in MEDIA_TYPES:
            raise UnsupportedMediaType(request.content_type or "without a Content-Type")
        return thread_changes(read_body(request, self.server.config.max_body_bytes))

    def _show(self, thread_id: str, *, with_superseded: bool) -> HttpResponseBase:
        from django_pydantic_agent.threads.running import with_running_turn

        conversation, owner = self.place
        stored = conversation.read(owner=owner, thread_id=thread_id, superseded=with_superseded)
        stored = with_running_turn(stored, self.run_store)
        etag = _etag(stored, owner, with_superseded=with_superseded)
        response = Response(thread_detail(stored, with_superseded=with_superseded), headers={"ETag": etag})
        if self.request.method == "PATCH":
            return response
        return get_conditional_response(self.request._request, etag=etag, response=response) or response


def _etag(thread: StoredThread, owner: Owner, *, with_superseded: bool) -> str:
    """Return `"<revision>.<applied seq, 0 when idle>.<digest>"`; the digest is that of what the two do not show.

    Another owner's thread of this id has another one, and so has one that was made anew: a browser may keep either.
    """
    seq = thread.active_run.applied_seq if thread.active_run else 0
    message_ids = [message["id"] for message in thread.messages]
    rest = [owner.key, message_ids, thread.title, thread.archived, unexpired(thread.interrupts), with_superseded]
    return f'"{thread.revision}.{seq}.{sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]}"'
