"""Threads in the admin, with their runs and messages."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db import router
from django.db.models import BinaryField, Q, QuerySet
from django.db.models.functions import Substr
from django.http import HttpRequest

from django_pydantic_agent.contrib.store.admin.base import TEMPLATES, ExportAdmin
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
            "messages_shown": messages[:MAX_MESSAGES],
            "next": messages[MAX_MESSAGES - 1] if len(messages) > MAX_MESSAGES else None,
            "can_export": self.has_export_permission(request),
        }


def _messages(rows: "QuerySet[ThreadMessage]", request: HttpRequest) -> list[Any]:
    """Return the beginnings of the messages behind the place that the request names, one more than a page shows."""
    try:
        turn, run, place = map(int, request.GET.get("after", "").split("-"))
    except ValueError:
        pass
    else:
        rows = rows.filter(Q(turn__gt=turn) | Q(turn=turn, run__gt=run) | Q(turn=turn, run=run, place__gt=place))
    shown = rows.order_by("turn", "run", "place").defer("body")
    beginning = Substr("body", 1, SHOWN_BYTES, output_field=BinaryField())
    messages: list[Any] = list(shown.annotate(beginning=beginning)[: MAX_MESSAGES + 1])
    for message in messages:
        message.text = bytes(message.beginning).decode(errors="replace")
    return messages
