"""Runs in the admin."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.admin.base import ReadOnlyAdmin
from django_pydantic_agent.contrib.store.models import Run, Snapshot, StepEvent, ToolEffect
from django_pydantic_agent.runs.timing import readable


class HasUnresolvedEffects(admin.SimpleListFilter):
    title = _("unresolved effects")
    parameter_name = "unresolved"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Yes"))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() != "1":
            return queryset
        return queryset.filter(Exists(ToolEffect.objects.unresolved().filter(run=OuterRef("pk"))))


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    columns = (
        "run_id",
        "owner",
        "scope",
        "thread_id",
        "parent_run_id",
        "server",
        "idempotency_key",
        "status",
        "is_ledger_only",
        "protocol",
        "first_seq",
        "last_seq",
        "attempt",
        "cancel_after",
        "error",
        "interrupts",
        "usage",
        "timing",
        "created_at",
        "finished_at",
        "conversation_id",
        "agent_name",
        "metadata",
        "preview",
        "is_continuable",
    )
    list_display = (
        "run_id",
        "status",
        "owner",
        "thread_id",
        "created_at",
        "finished_at",
        "duration",
        "preview",
        "unresolved_effects",
    )
    list_filter = ("status", HasUnresolvedEffects)
    search_fields = ("run_id", "thread_id", "owner")
    ordering = ("-pk",)
    fields = (
        *columns[: columns.index("first_seq")],
        "kept_events",
        *columns[columns.index("attempt") : columns.index("timing")],
        "times",
        *columns[columns.index("created_at") : columns.index("conversation_id")],
        "duration",
        *columns[columns.index("conversation_id") :],
        "unresolved_effects",
        "ledger",
    )

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        runs: Any = super().get_queryset(request)
        counted: QuerySet[Any] = runs.with_unresolved_effects()
        return counted

    @admin.display(description=_("duration"))
    def duration(self, run: Run) -> timedelta | None:
        if run.finished_at is None or run.created_at is None:
            return None
        taken: timedelta = run.finished_at - run.created_at
        return taken

    @admin.display(description=_("kept events"))
    def kept_events(self, run: Run) -> str:
        if run.first_seq > run.last_seq:
            return gettext("none of %(count)d") % {"count": run.last_seq}
        return f"{run.first_seq}-{run.last_seq}"

    @admin.display(description=_("timing"))
    def times(self, run: Run) -> SafeString:
        """Show the timing record; times are in seconds since the run was accepted."""
        return format_html_join("", "<div>{}: {}</div>", readable(run.timing or {}))

    @admin.display(description=_("unresolved effects"))
    def unresolved_effects(self, run: Any) -> int:
        number: int = run.unresolved_effects
        return number

    @admin.display(description=_("ledger"))
    def ledger(self, run: Run) -> SafeString:
        """Link to what the ledger holds of the run."""
        links = []
        for model in (StepEvent, Snapshot, ToolEffect):
            options = model._meta
            url = reverse(f"{self.admin_site.name}:{options.app_label}_{options.model_name}_changelist")
            links.append((f"{url}?run__id__exact={run.pk}", options.verbose_name_plural))
        return format_html("<p>{}</p>", format_html_join(", ", '<a href="{}">{}</a>', links))
