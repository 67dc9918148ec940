"""Threads in the admin, with their runs and messages."""

from codecs import iterdecode
from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db import router
from django.db.models import BinaryField, Q, QuerySet
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import URLPattern

from django_pydantic_agent.contrib.store.admin.base import TEMPLATES, ExportAdmin
from django_pydantic_agent.contrib.store.admin.payloads import beginning, download
from django_pydantic_agent.contrib.store.models import Run, Thread, ThreadMessage

MAX_MESSAGES = 50
MAX_RUNS = 20
SHOWN_BYTES = 2_000


@admin.register(Thread)
class ThreadAdmin(ExportAdmin):
    columns = (
        "thread_id",
        "title",
        "is_titled_by_person",
        "preview",
        "owner",
        "scope",
        "is_archived",
        "revision",
        "turns",
        "open_calls",
        "open_interrupts",
        "created_at",
        "updated_at",
    )
    payloads = ("title", "preview", "state", "open_calls", "open_interrupts")
    list_display = (
        "thread_id",
        "title",
        "preview",
        "owner",
        "scope",
        "turns",
        "is_archived",
        "created_at",
        "updated_at",
    )
    list_filter = ("is_archived",)
    search_fields = ("thread_id", "owner", "title", "preview")
    ordering = ("-pk",)
    fields = (*columns[:9], "state", *columns[9:])
    change_form_template = f"{TEMPLATES}/thread.html"

    def get_urls(self) -> list[URLPattern]:
        return [self.route("message", "<int:message>/", view=self.message_view), *super().get_urls()]

    def lines(self, rows: "QuerySet[Any]") -> Iterator[dict[str, Any]]:
        from django_pydantic_agent.contrib.store.export import export_threads

        return export_threads(rows)

    def about(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        alias = router.db_for_write(Thread)
        runs = Run.objects.using(alias).filter(in_thread=row.pk).order_by("-pk")
        messages = _messages(ThreadMessage.objects.using(alias).filter(thread=row.pk, piece=0), request)
        return {
            "runs": runs.only("run_id", "status", "turn", "superseded_by")[:MAX_RUNS],
            "all_runs": f"{self.url_of(Run, 'changelist')}?in_thread__id__exact={row.pk}",
            "messages_shown": [self._with_beginning(message) for message in messages[:MAX_MESSAGES]],
            "next": messages[MAX_MESSAGES - 1] if len(messages) > MAX_MESSAGES else None,
            "can_export": self.has_export_permission(request),
        }

    def _with_beginning(self, message: Any) -> Any:
        # The last character may be cut in two.
        text = bytes(message.beginning[:SHOWN_BYTES]).decode(errors="ignore")
        url = self.url("message", message.thread_id, message.pk)
        message.shown = beginning(text, url, is_cut=message.pieces > 1 or len(message.beginning) > SHOWN_BYTES)
        return message

    def message_view(self, request: HttpRequest, key: int, message: int) -> HttpResponseBase:
        thread = self.row(request, key)
        rows = ThreadMessage.objects.using(router.db_for_write(ThreadMessage)).filter(thread=thread.pk)
        first = get_object_or_404(rows.defer("body"), pk=message, piece=0)
        whole = rows.filter(turn=first.turn, run=first.run, place=first.place, piece__lt=first.pieces)
        bodies = (bytes(body) for body in whole.order_by("piece").values_list("body", flat=True).iterator())
        return download(request, iterdecode(bodies, "utf-8"), name=f"message-{key}-{message}.json")


def _messages(rows: "QuerySet[ThreadMessage]", request: HttpRequest) -> list[Any]:
    """Return the beginnings of the messages behind the place that the request names, one more than a page shows."""
    try:
        turn, run, place = map(int, request.GET.get("after", "").split("-"))
    except ValueError:
        pass
    else:
        rows = rows.filter(Q(turn__gt=turn) | Q(turn=turn, run__gt=run) | Q(turn=turn, run=run, place__gt=place))
    shown = rows.order_by("turn", "run", "place").defer("body")
    first_bytes = Substr("body", 1, SHOWN_BYTES + 1, output_field=BinaryField())
    return list(shown.annotate(beginning=first_bytes)[: MAX_MESSAGES + 1])
