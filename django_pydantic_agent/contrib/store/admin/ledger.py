"""Step events, snapshots and tool effects in the admin."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.admin.base import ReadOnlyAdmin
from django_pydantic_agent.contrib.store.models import Snapshot, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import (
    EFFECT_FIELDS,
    EFFECT_TEXTS,
    EVENT_FIELDS,
    SNAPSHOT_FIELDS,
    VERDICT,
    EffectStatus,
)


class Unresolved(admin.SimpleListFilter):
    title = _("unresolved")
    parameter_name = "unresolved"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Yes")), ("0", _("No"))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() == "1":
            return queryset.filter(status=EffectStatus.STARTED, verdict="")
        if self.value() == "0":
            return queryset.exclude(status=EffectStatus.STARTED, verdict="")
        return queryset


class LedgerAdmin(ReadOnlyAdmin):
    """Rows of the ledger, each with the run that it belongs to."""

    ordering = ("-pk",)
    list_display_links = ("pk",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "run__id__exact" or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]

    @admin.display(description=_("run"))
    def run_id_text(self, row: Any) -> str:
        text: str = row.run.run_id
        return text


@admin.register(StepEvent)
class StepEventAdmin(LedgerAdmin):
    columns = ("run__run_id", *EVENT_FIELDS)
    list_display = ("pk", "run_id_text", "kind", "step_index", "timestamp", "tool_name", "tool_call_id")
    fields = ("run", *columns[1:])
    search_fields = ("tool_call_id", "tool_name")


@admin.register(Snapshot)
class SnapshotAdmin(LedgerAdmin):
    columns = ("run__run_id", *SNAPSHOT_FIELDS, "history_size", "message_count", "is_pruned")
    list_display = ("pk", "run_id_text", "state", "step_index", "timestamp", "message_count", "history_size")
    list_filter = ("state",)
    fields = ("run", *columns[1:])


@admin.register(ToolEffect)
class ToolEffectAdmin(LedgerAdmin):
    columns = ("run__run_id", *EFFECT_FIELDS, *EFFECT_TEXTS, *VERDICT)
    list_display = ("pk", "run_id_text", "tool_name", "tool_call_id", "status", "reason", "started_at", "ended_at")
    list_filter = (Unresolved, "status")
    fields = ("run", *columns[1:])
    search_fields = ("tool_call_id", "tool_name")
