"""Step events, snapshots and interrupts in the admin."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.admin.base import ReadOnlyAdmin
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Snapshot, StepEvent
from django_pydantic_agent.contrib.store.models.ledger import EVENT_FIELDS, SNAPSHOT_FIELDS


class LedgerAdmin(ReadOnlyAdmin):
    """Rows that belong to a run, each with a link to it."""

    ordering = ("-pk",)
    list_display_links = ("pk",)
    linked = ("run__id__exact",)

    @admin.display(description=_("run"))
    def run_link(self, row: Any) -> str:
        return format_html('<a href="{}">{}</a>', self.url_of(Run, "change", row.run_id), row.run.run_id)


@admin.register(StepEvent)
class StepEventAdmin(LedgerAdmin):
    columns = ("run__run_id", *EVENT_FIELDS)
    payloads = ("error", "metadata", "idempotency_key")
    list_display = ("pk", "run_link", "kind", "step_index", "timestamp", "tool_name", "tool_call_id")
    fields = ("run_link", *EVENT_FIELDS)
    search_fields = ("tool_call_id", "tool_name")


@admin.register(Snapshot)
class SnapshotAdmin(LedgerAdmin):
    columns = ("run__run_id", *SNAPSHOT_FIELDS, "history_size", "message_count", "is_pruned")
    list_display = ("pk", "run_link", "state", "step_index", "timestamp", "message_count", "history_size")
    list_filter = ("state",)
    fields = ("run_link", *columns[1:])


@admin.register(Interrupt)
class InterruptAdmin(LedgerAdmin):
    columns = (
        "run__run_id",
        "reason",
        "decision",
        "tool_name",
        "tool_call_id",
        "arguments",
        "message",
        "response_schema",
        "expires_at",
        "answer",
        "decider",
        "decided_at",
        "decided_by_run",
        "interrupt_id",
    )
    payloads = ("arguments", "message", "response_schema", "answer")
    list_display = (
        "pk",
        "run_link",
        "tool_name",
        "tool_call_id",
        "reason",
        "decision",
        "decider",
        "decided_at",
        "expires_at",
    )
    list_filter = ("decision", "reason")
    fields = ("run_link", *columns[1:])
    search_fields = ("tool_call_id", "tool_name")
