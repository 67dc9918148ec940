"""The filters of the lists."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.models import Interrupt, Run

RECENT_RUNS = 1_000
"""Of how many runs, the newest, the servers are offered as filters."""


class YesFilter(admin.SimpleListFilter):
    """Keeps the rows of which something is true."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Yes"))]


class UnresolvedFilter(YesFilter):
    """Keeps the effects of unknown outcome, and of runs those that have one, in a delegate too."""

    title = _("unresolved effects")
    parameter_name = "unresolved"

    def queryset(self, request: HttpRequest, queryset: Any) -> "QuerySet[Any]":
        unresolved: QuerySet[Any] = queryset.of_unknown_outcome() if self.value() == "1" else queryset
        return unresolved


class WaitsForApproval(YesFilter):
    title = _("waiting for approval")
    parameter_name = "waiting"

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() != "1":
            return queryset
        return queryset.filter(Exists(Interrupt.objects.undecided().filter(run=OuterRef("pk"))))


class ServerFilter(admin.SimpleListFilter):
    title = _("server")
    parameter_name = "server"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        recent = Run.objects.order_by("-pk").values_list("server", flat=True)[:RECENT_RUNS]
        return [(name, name) for name in sorted(set(recent)) if name]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset if self.value() is None else queryset.filter(server=self.value())


class StartedFilter(admin.SimpleListFilter):
    title = _("started")
    parameter_name = "started"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Past 24 hours")), ("7", _("Past 7 days")), ("30", _("Past 30 days"))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() not in ("1", "7", "30"):
            return queryset
        return queryset.filter(created_at__gte=datetime.now(UTC) - timedelta(days=int(self.value() or 0)))
