"""What all pages of the store app share: nothing is edited, and no page gets slower as tables grow."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList, ChangeListSearchForm
from django.core.exceptions import BadRequest, PermissionDenied
from django.core.paginator import Paginator
from django.db import models
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.admin.payloads import as_text, download, in_short

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[models.Model]
else:
    _ModelAdmin = admin.ModelAdmin

COUNTED_ROWS = 10_000

MAX_AT_ONCE = 100
"""On how many rows an action is done that changes them one by one."""

MAX_SEARCH_CHARACTERS = 1_000
"""The longest text to search for; SQLite fails on patterns of 50,000 bytes."""

TEMPLATES = "admin/django_pydantic_agent_store"


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts rows up to `COUNTED_ROWS`; more are found by search and filters."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        # Without what the list shows of each row.
        return int(rows.order_by().values("pk")[:COUNTED_ROWS].count())


class SearchForm(ChangeListSearchForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[SEARCH_VAR] = forms.CharField(
            required=False, strip=False, max_length=MAX_SEARCH_CHARACTERS, label=_("Search")
        )


class NarrowChangeList(ChangeList):
    """Loads the columns that the list shows, and is filtered by what it offers only, with text that can be stored."""

    search_form_class = SearchForm

    def get_filters(self, request: HttpRequest) -> Any:
        offered = self.model_admin.offered_lookups()  # type: ignore[attr-defined]
        for lookup, values in self.get_filters_params().items():
            if lookup not in offered or any("\0" in value for value in values):
                raise IncorrectLookupParameters
        return super().get_filters(request)

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "models.QuerySet[models.Model]":
        queryset = super().get_queryset(request, exclude_parameters)
        columns: tuple[str, ...] = self.model_admin.columns  # type: ignore[attr-defined]
        return queryset.only(*(name for name in columns if name in self.list_display or "__" in name))


class ReadOnlyAdmin(_ModelAdmin):
    """Shows the columns in `columns`, and loads no others.

    Columns in `payloads` may be large: their row shows the beginning and leads to the whole. `linked` are the lookups
    by which other pages lead to this list.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    payloads: ClassVar[tuple[str, ...]] = ()
    linked: ClassVar[tuple[str, ...]] = ()
    list_per_page = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions: Sequence[str] = ()
    view_on_site = False

    class Media:
        css: ClassVar = {"all": ["django_pydantic_agent_store/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "models.QuerySet[models.Model]":
        related = sorted({name.split("__")[0] for name in self.columns if "__" in name})
        queryset = super().get_queryset(request).only(*self.columns)
        return queryset.select_related(*related) if related else queryset

    def offered_lookups(self) -> set[str]:
        """Return the parameters of addresses by which the list may be filtered."""
        offered = set(self.linked)
        for one in self.list_filter:
            offered |= {f"{one}__exact", f"{one}__isnull"} if isinstance(one, str) else {one.parameter_name}  # type: ignore[union-attr]
        return offered

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup in self.linked or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return super().get_object(request, object_id, from_field or None)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NarrowChangeList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [self._payload(name) if name in self.payloads else name for name in self.fields or ()]

    def about(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the template of a row's page shows beside the fields."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], add: bool = False, change: bool = False,
        form_url: str = "", obj: Any = None,
    ) -> Any:  # fmt: skip
        context.update(self.about(request, obj))
        return super().render_change_form(request, context, add, change, form_url, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        # Django itself answers 200 to an action that is not offered.
        if any(name and name not in self.get_actions(request) for name in request.POST.getlist("action")):
            raise PermissionDenied
        if not all(_is_key(chosen) for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME)):
            raise BadRequest("what is selected is no row")
        return super().changelist_view(request, extra_context)

    def get_urls(self) -> list[URLPattern]:
        return [self.route("payload", "<slug:column>/", view=self.payload_view), *super().get_urls()]

    def route(self, name: str, arguments: str = "", *, view: Any) -> URLPattern:
        """Return the URL pattern of a page about one row."""
        options = self.opts
        url_name = f"{options.app_label}_{options.model_name}_{name}"
        pattern: URLPattern = path(f"<int:key>/{name}/{arguments}", self.admin_site.admin_view(view), name=url_name)
        return pattern

    def url(self, name: str, *args: Any) -> str:
        """Return the address of a page of this admin."""
        return self.url_of(self.model, name, *args)

    def url_of(self, model: type[models.Model], name: str, *args: Any) -> str:
        """Return the address of a page of the admin of a model."""
        options = model._meta
        return reverse(f"{self.admin_site.name}:{options.app_label}_{options.model_name}_{name}", args=args)

    def row(self, request: HttpRequest, key: int, *, action: str = "view") -> Any:
        """Return the row that a page is about; raises `PermissionDenied` for who may not see it or do this with it."""
        may_act = getattr(self, f"has_{action}_permission")
        if not (self.has_view_permission(request) and may_act(request)):
            raise PermissionDenied
        return get_object_or_404(self.get_queryset(request), pk=key)

    def chosen(self, request: HttpRequest, rows: "models.QuerySet[Any]") -> list[Any]:
        """Return the rows that an action is for; where they are too many, say so and return none."""
        chosen = list(rows[: MAX_AT_ONCE + 1])
        if len(chosen) <= MAX_AT_ONCE:
            return chosen
        about = {"number": MAX_AT_ONCE, "rows": self.opts.verbose_name_plural}
        self.message_user(request, gettext("Select at most %(number)d %(rows)s.") % about, messages.ERROR)
        return []

    def page(self, request: HttpRequest, template: str, **context: Any) -> TemplateResponse:
        """Return a page of this admin beside those that Django has."""
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "media": self.media}
        return TemplateResponse(request, f"{TEMPLATES}/{template}", {**shared, **context})

    def payload_view(self, request: HttpRequest, key: int, column: str) -> HttpResponseBase:
        row = self.row(request, key)
        if column not in self.payloads:
            raise Http404
        extension = "txt" if isinstance(self.opts.get_field(column), models.TextField) else "json"
        return download(request, iter([as_text(getattr(row, column))]), name=f"{column}-{key}.{extension}")

    def _payload(self, name: str) -> Any:
        @admin.display(description=self.opts.get_field(name).verbose_name)  # type: ignore[union-attr]
        def payload(row: Any) -> str:
            text = as_text(getattr(row, name))
            return in_short(text, self.url("payload", row.pk, name)) if text else self.get_empty_value_display()

        payload.__name__ = name
        return payload


def _is_key(text: str) -> bool:
    largest = models.BigIntegerField.MAX_BIGINT
    return text.isascii() and text.isdecimal() and len(text) <= len(str(largest)) and int(text) <= largest


class ExportAdmin(ReadOnlyAdmin):
    """Rows that are exported with all that belongs to them, by those who have a permission of their own for it."""

    actions: Sequence[str] = ("export",)

    def lines(self, rows: Any) -> Iterator[dict[str, Any]]:
        """Yield what is exported of these rows."""
        raise NotImplementedError

    def has_export_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.export_{self.opts.model_name}")

    def get_urls(self) -> list[URLPattern]:
        return [self.route("export", view=self.export_view), *super().get_urls()]

    @admin.action(description=_("Export selected %(verbose_name_plural)s"), permissions=["export"])
    def export(self, request: HttpRequest, queryset: "models.QuerySet[Any]") -> HttpResponseBase:
        return self._export(request, queryset, name=str(self.opts.model_name))

    def export_view(self, request: HttpRequest, key: int) -> HttpResponseBase:
        row = self.row(request, key, action="export")
        return self._export(request, self.get_queryset(request).filter(pk=row.pk), name=f"{self.opts.model_name}-{key}")

    def _export(self, request: HttpRequest, queryset: "models.QuerySet[Any]", *, name: str) -> HttpResponseBase:
        from django_pydantic_agent.contrib.store.rows import as_json

        # With all columns, which the lists leave out.
        rows = self.model._base_manager.using(queryset.db).filter(pk__in=queryset.order_by().values("pk"))
        return download(request, (as_json(line) + "\n" for line in self.lines(rows)), name=f"{name}.jsonl")
