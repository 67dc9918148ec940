"""Runs in the admin: what happened in each, and what an operator does about it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db import router
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_pydantic_agent.contrib.store.admin.base import COUNTED_ROWS, TEMPLATES, ExportAdmin, NarrowChangeList
from django_pydantic_agent.contrib.store.admin.filters import (
    ServerFilter,
    StartedFilter,
    UnresolvedFilter,
    WaitsForApproval,
)
from django_pydantic_agent.contrib.store.admin.payloads import download, in_short
from django_pydantic_agent.contrib.store.models import Interrupt, Run, Snapshot, StepEvent, Thread, ToolEffect
from django_pydantic_agent.contrib.store.models.approvals import InterruptQuerySet
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import LIVE, Decision
from django_pydantic_agent.runs.timing import readable

if TYPE_CHECKING:
    from django_pydantic_agent.contrib.store.run_log import RunLog
    from django_pydantic_agent.contrib.store.timeline import Entry

MAX_RELATED = 20
"""How many effects, interrupts and children the page of a run shows; of effects and interrupts it links to all."""

LAST_EVENTS = 200
"""From how many events before the end the last page of a timeline begins."""

_SHOWN_OF_UNKNOWN = ("tool_name", "tool_call_id", "arguments", "reason", "started_at")


class RunChangeList(NarrowChangeList):
    """Counts the unresolved effects of all runs on a page at once."""

    def get_results(self, request: HttpRequest) -> None:
        from django_pydantic_agent.contrib.store.effects import number_unknown

        super().get_results(request)
        runs: Any = self.result_list
        numbers = number_unknown([run.pk for run in runs], using=runs.db)
        for run in runs:
            run.unresolved_effects = numbers[run.pk]


@admin.register(Run)
class RunAdmin(ExportAdmin):
    columns = (
        "run_id",
        "owner",
        "scope",
        "thread_id",
        "in_thread",
        "parent_run_id",
        "parent",
        "run_digest",
        "server",
        "idempotency_key",
        "status",
        "is_ledger_only",
        "protocol",
        "first_seq",
        "last_seq",
        "attempt",
        "cancel_requested",
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
    payloads = ("input", "preview", "error", "interrupts", "usage", "metadata", "idempotency_key")
    list_display = (
        "run_id",
        "status",
        "unresolved_effects",
        "owner",
        "server",
        "agent_name",
        "preview",
        "created_at",
        "finished_at",
        "duration",
        "attempt",
        "error_code",
        "tokens",
        "thread_id",
    )
    linked = ("in_thread__id__exact",)
    list_filter = ("status", UnresolvedFilter, WaitsForApproval, StartedFilter, ServerFilter)
    search_fields = ("run_id", "thread_id", "owner", "preview")
    ordering = ("-pk",)
    fields = (
        "status",
        "unresolved_effects",
        "error",
        "owner",
        "scope",
        "thread",
        "came_from",
        "server",
        "agent_name",
        "preview",
        "input",
        "created_at",
        "finished_at",
        "duration",
        "attempt",
        "times",
        "kept_events",
        "usage",
        "interrupts",
        "cancel_requested",
        "cancel_after",
        "is_continuable",
        "run_id",
        "is_ledger_only",
        "protocol",
        "idempotency_key",
        "conversation_id",
        "metadata",
        "ledger",
    )
    actions = ("export", "cancel")
    change_form_template = f"{TEMPLATES}/run.html"

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        runs: Any = super().get_queryset(request)
        annotated: QuerySet[Any] = runs.annotate(
            error_code=KT("error__code"),
            input_tokens=KT("usage__input_tokens"),
            output_tokens=KT("usage__output_tokens"),
        )
        return annotated

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NarrowChangeList]:
        return RunChangeList

    def get_urls(self) -> list[URLPattern]:
        return [
            self.route("cancel", view=require_POST(self.cancel_view)),
            self.route("events", view=self.events_view),
            self.route("log", view=self.log_view),
            self.route("event", "<int:seq>/", view=self.event_view),
            self.route("text", "<int:seq>/", view=self.text_view),
            *super().get_urls(),
        ]

    def lines(self, rows: "QuerySet[Any]") -> Iterator[dict[str, Any]]:
        from django_pydantic_agent.contrib.store.export import export_runs

        return export_runs(rows)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.cancel_run")

    @admin.action(description=_("Cancel selected runs"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: "QuerySet[Any]") -> None:
        runs = self.chosen(request, queryset)
        if not runs:
            return
        number = sum(self._cancel(request, run) for run in runs)
        told = ngettext(
            "%(number)d run was cancelled or asked to stop.",
            "%(number)d runs were cancelled or asked to stop.",
            number,
        )
        self.message_user(request, told % {"number": number}, messages.SUCCESS if number else messages.WARNING)

    def cancel_view(self, request: HttpRequest, key: int) -> HttpResponseBase:
        run = self.row(request, key, action="cancel")
        if self._cancel(request, run):
            self.message_user(request, gettext("The run was cancelled or asked to stop."), messages.SUCCESS)
        else:
            self.message_user(request, gettext("The run has ended already."), messages.WARNING)
        return HttpResponseRedirect(self.url("change", key))

    def _cancel(self, request: HttpRequest, run: Run) -> bool:
        """Ask a run to stop, or give up what it asks; False where there is neither to do."""
        from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
        from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
        from django_pydantic_agent.runs.engine import get_engine

        store = DatabaseRunStore()
        if run.status in LIVE:
            done = get_engine().request_cancel(run.pk, store=store)
        elif done := _asked_by(run).undecided().exists():
            asking = store.by_key(run.pk, owner=Owner(run.owner))
            if asking is not None:
                get_engine().cancel_asked(asking, store=store, conversation=DefaultConversationStore())
        if done:
            self.log_change(request, run, gettext("Cancelled."))
        return done

    def events_view(self, request: HttpRequest, key: int) -> TemplateResponse:
        from django_pydantic_agent.contrib.store.timeline import events

        run = self.row(request, key)
        page = events(_log_of(run), after=_after(request, run), last_seq=run.last_seq)
        rows = [(seq, in_short(frame.decode(), self.url("event", key, seq))) for seq, frame in page.rows]
        context = {"run": run, "rows": rows, "next": page.next, "can_export": self.has_export_permission(request)}
        return self.page(request, "events.html", title=gettext("Events"), **context)

    def log_view(self, request: HttpRequest, key: int) -> HttpResponseBase:
        run = self.row(request, key, action="export")
        frames = _frames(run, after=run.first_seq - 1)
        return download(request, (frame.decode() + "\n" for frame in frames), name=f"log-{key}.jsonl")

    def event_view(self, request: HttpRequest, key: int, seq: int) -> HttpResponseBase:
        frame = next(self._from(request, key, seq))
        return download(request, iter([frame.decode()]), name=f"event-{key}-{seq}.json")

    def text_view(self, request: HttpRequest, key: int, seq: int) -> HttpResponseBase:
        from django_pydantic_agent.contrib.store.timeline import whole_text

        return download(request, whole_text(self._from(request, key, seq)), name=f"text-{key}-{seq}.txt")

    def _from(self, request: HttpRequest, key: int, seq: int) -> Iterator[bytes]:
        """Return the frames of a log from seq `seq` on, of which there is one."""
        run = self.row(request, key)
        if not max(run.first_seq, 1) <= seq <= run.last_seq:
            raise Http404
        return _frames(run, after=seq - 1)

    def about(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        from django_pydantic_agent.contrib.store.effects import effects_of
        from django_pydantic_agent.contrib.store.timeline import timeline

        run: Run = row
        alias = router.db_for_write(Run)
        page = timeline(_log_of(run), after=_after(request, run), last_seq=run.last_seq)
        unknown = effects_of(run.pk, using=alias).of_unknown_outcome().select_related("run")
        children = Run.objects.using(alias).filter(Q(parent=run.pk) | Q(parent_digest=run.run_digest)).order_by("-pk")
        interrupts = _asked_by(run).order_by("-pk").only("interrupt_id", "tool_name", "reason", "decision", "decider")
        asked = list(interrupts[:MAX_RELATED])
        row.unresolved_effects = unknown[:COUNTED_ROWS].count()
        waits = any(interrupt.decision == Decision.PENDING for interrupt in asked)
        return {
            "timeline": [self._shown(run, entry) for entry in page.rows],
            "next": page.next,
            "last": max(run.last_seq - LAST_EVENTS, run.first_seq - 1),
            "unknown": unknown.only("run__run_id", *_SHOWN_OF_UNKNOWN)[:MAX_RELATED],
            "asked": asked,
            "children": children.only("run_id", "status", "is_ledger_only", "agent_name")[:MAX_RELATED],
            "can_cancel": self.has_cancel_permission(request) and (run.status in LIVE or waits),
            "can_export": self.has_export_permission(request),
            "can_settle": request.user.has_perm(f"{self.opts.app_label}.change_tooleffect"),
        }

    def _shown(self, run: Run, entry: "Entry") -> dict[str, Any]:
        return {
            "entry": entry,
            "text": in_short(entry.text, self.url("text", run.pk, entry.seq)),
            "result": in_short(entry.result, self.url("text", run.pk, entry.result_seq)),
        }

    @admin.display(description=_("duration"))
    def duration(self, run: Run) -> timedelta | str:
        if run.finished_at is None or run.created_at is None:
            return self.get_empty_value_display()
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
        times = ((gettext(label), text) for label, text in readable(run.timing or {}))
        return format_html_join("", "<div>{}: {}</div>", times)

    @admin.display(description=_("unresolved effects"))
    def unresolved_effects(self, run: Any) -> int:
        number: int = run.unresolved_effects
        return number

    @admin.display(description=_("error"))
    def error_code(self, run: Any) -> str | None:
        code: str | None = run.error_code
        return code

    @admin.display(description=_("tokens in / out"))
    def tokens(self, run: Any) -> str | None:
        return None if run.input_tokens is None else f"{run.input_tokens} / {run.output_tokens}"

    @admin.display(description=_("thread"))
    def thread(self, run: Run) -> str:
        if run.in_thread_id is None:
            return run.thread_id or self.get_empty_value_display()
        return format_html('<a href="{}">{}</a>', self.url_of(Thread, "change", run.in_thread_id), run.thread_id)

    @admin.display(description=_("parent"))
    def came_from(self, run: Run) -> str:
        if run.parent_id is None:
            return run.parent_run_id or self.get_empty_value_display()
        return format_html('<a href="{}">{}</a>', self.url("change", run.parent_id), run.parent_run_id)

    @admin.display(description=_("ledger"))
    def ledger(self, run: Run) -> SafeString:
        """Link to what the ledger holds of the run."""
        links = [
            (f"{self.url_of(model, 'changelist')}?run__id__exact={run.pk}", model._meta.verbose_name_plural)
            for model in (StepEvent, Snapshot, ToolEffect, Interrupt)
        ]
        return format_html("<p>{}</p>", format_html_join(", ", '<a href="{}">{}</a>', links))


def _asked_by(run: Run) -> InterruptQuerySet:
    return Interrupt.objects.using(router.db_for_write(Interrupt)).filter(run=run.pk)


def _log_of(run: Run) -> "RunLog":
    from django_pydantic_agent.contrib.store.run_log import RunLog

    return RunLog(run=run.pk, using=router.db_for_write(Run))


def _frames(run: Run, *, after: int) -> Iterator[bytes]:
    from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
    from django_pydantic_agent.log.reading import frames_after

    return frames_after(DatabaseRunStore(), run.pk, after=after)


def _after(request: HttpRequest, run: Run) -> int:
    """Return behind which seq a page of a log begins, that of the first event by default."""
    try:
        after = int(request.GET.get("after", 0))
    except ValueError:
        after = 0
    return min(max(after, run.first_seq - 1), run.last_seq)
