"""The page that lists threads or runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.translation import pgettext
from rest_framework.request import Request

from django_ag_ui.api.starting import AgentView
from django_ag_ui.ui.pages import PageView, login_url
from django_ag_ui.ui.posting import ComposerView
from django_ag_ui.ui.rows import Asked, listing
from django_ag_ui.ui.states import FILTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A link that keeps the list to one state."""

    label: str
    query: str
    is_on: bool


class PickerView(ComposerView, AgentView):
    """The list, and a form that begins a conversation."""

    def get(self, request: Request, **kwargs: str) -> HttpResponse:
        return self.page("picker", **picker_context(self))

    def thread_of(self, nonce: UUID) -> str:
        return str(nonce)


class RowsView(PageView):
    """The rows of the list alone, with an ETag, for pages that keep themselves up to date."""

    def get(self, request: Request, **kwargs: str) -> HttpResponseBase:
        context = {"list": listing(self), "addresses": self.addresses}
        response = HttpResponse(render_to_string("django_ag_ui/ui/_rows.html", context))
        etag = f'"{sha256(response.content).hexdigest()[:32]}"'
        response.headers["ETag"] = etag
        return get_conditional_response(request._request, etag=etag, response=response) or response


def picker_context(view: PageView | ComposerView) -> dict[str, Any]:
    """Return what the template of the list needs for the list that a request asks for."""
    shown = listing(view)
    return {
        "list": shown,
        "chips": list(_chips(shown.asked)),
        "archived_query": shown.asked.query(archived=not shown.asked.archived),
        "this_query": shown.asked.query(cursor=shown.asked.cursor),
        "next_query": shown.next and shown.asked.query(cursor=shown.next),
        "first_query": shown.asked.query(),
        "here": view.request._request.get_full_path(),
        "can_compose": view.owner is not None,
        "login_url": login_url(view.request._request),
    }


def _chips(asked: Asked) -> Iterator[Chip]:
    yield Chip(label=pgettext("runs in any state", "All"), query=asked.query(status=""), is_on=not asked.status)
    for status, label in FILTERS.items():
        yield Chip(label=str(label), query=asked.query(status=status), is_on=asked.status == status)
