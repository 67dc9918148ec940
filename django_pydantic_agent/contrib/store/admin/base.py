"""What all pages of the store app share: nothing can be changed, and no page gets slower as tables grow."""

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest
from django.utils.functional import cached_property

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[models.Model]
else:
    _ModelAdmin = admin.ModelAdmin

COUNTED_ROWS = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts rows up to `COUNTED_ROWS`; more are found by search and filters."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNTED_ROWS].count())


class NarrowChangeList(ChangeList):
    """Loads the columns that the list shows."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "models.QuerySet[models.Model]":
        queryset = super().get_queryset(request, exclude_parameters)
        columns: tuple[str, ...] = self.model_admin.columns  # type: ignore[attr-defined]
        return queryset.only(*(name for name in columns if name in self.list_display or "__" in name))


class ReadOnlyAdmin(_ModelAdmin):
    """Shows the columns in `columns`, and loads no others."""

    columns: ClassVar[tuple[str, ...]] = ()
    list_per_page = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    actions = None
    view_on_site = False

    def get_queryset(self, request: HttpRequest) -> "models.QuerySet[models.Model]":
        related = sorted({name.split("__")[0] for name in self.columns if "__" in name})
        queryset = super().get_queryset(request).only(*self.columns)
        return queryset.select_related(*related) if related else queryset

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NarrowChangeList

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
