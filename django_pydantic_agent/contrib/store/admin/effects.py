"""Tool effects in the admin, and the page on which an operator says what became of a call."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from django_pydantic_agent.contrib.store.admin.base import TEMPLATES
from django_pydantic_agent.contrib.store.admin.filters import UnresolvedFilter
from django_pydantic_agent.contrib.store.admin.ledger import LedgerAdmin
from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.contrib.store.models.ledger import EFFECT_FIELDS, EFFECT_TEXTS, VERDICT
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS, Verdict


class VerdictForm(forms.Form):
    verdict = forms.ChoiceField(label=_("What happened?"), choices=Verdict.choices, widget=forms.RadioSelect)
    note = forms.CharField(
        label=_("Note"), required=False, max_length=MAX_NOTE_CHARACTERS, widget=forms.Textarea(attrs={"rows": 3})
    )


@admin.register(ToolEffect)
class ToolEffectAdmin(LedgerAdmin):
    columns = ("run__run_id", *EFFECT_FIELDS, *EFFECT_TEXTS, *VERDICT)
    payloads = ("idempotency_key", "effect_summary", "arguments", "result")
    list_display = (
        "pk",
        "run_link",
        "tool_name",
        "tool_call_id",
        "status",
        "reason",
        "verdict",
        "verdict_by",
        "started_at",
        "ended_at",
    )
    list_filter = (UnresolvedFilter, "status", "verdict")
    fields = ("run_link", *columns[1:])
    search_fields = ("tool_call_id", "tool_name")
    actions = ("settle",)
    change_form_template = f"{TEMPLATES}/effect.html"

    def has_settle_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")

    def get_urls(self) -> list[URLPattern]:
        return [self.route("settle", view=self.settle_view), *super().get_urls()]

    def about(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        from django_pydantic_agent.contrib.store.effects import refusal

        return {"can_settle": self.has_settle_permission(request) and not refusal(row.pk)}

    @admin.action(description=_("Settle selected tool effects"), permissions=["settle"])
    def settle(self, request: HttpRequest, queryset: "QuerySet[Any]") -> HttpResponseBase | None:
        effects = self.chosen(request, queryset.select_related("run"))
        return self._settle(request, effects, then=request.get_full_path()) if effects else None

    def settle_view(self, request: HttpRequest, key: int) -> HttpResponseBase:
        from django_pydantic_agent.contrib.store.effects import refusal

        effect = self.row(request, key, action="settle")
        if request.method != "POST" and (told := refusal(key)):
            self.message_user(request, told, messages.WARNING)
            return HttpResponseRedirect(self.url("change", key))
        return self._settle(request, [effect], then=self.url("change", key))

    def _settle(self, request: HttpRequest, effects: Sequence[ToolEffect], *, then: str) -> HttpResponseBase:
        """Ask for a verdict, or give the one that was posted, and lead to `then`."""
        form = VerdictForm(request.POST if "settle" in request.POST else None)
        if form.is_valid():
            refused = self._give(request, effects, **form.cleaned_data)
            if number := len(effects) - len(refused):
                told = ngettext("%(number)d tool effect is settled.", "%(number)d tool effects are settled.", number)
                self.message_user(request, told % {"number": number}, messages.SUCCESS)
            for text in refused:
                self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(then)
        context = {"form": form, "effects": effects, "checkbox": ACTION_CHECKBOX_NAME, "back": then}
        return self.page(request, "settle.html", title=gettext("Did it happen?"), **context)

    def _give(self, request: HttpRequest, effects: Sequence[ToolEffect], *, verdict: str, note: str) -> list[str]:
        """Give a verdict and write it into the admin's history; return why it was not given to the others."""
        from django_pydantic_agent.contrib.store.effects import refusal, settle

        refused = []
        for effect in effects:
            with transaction.atomic(using=router.db_for_write(ToolEffect)):
                if settle(effect.pk, Verdict(verdict), by=Owner.of_user(request.user).key, note=note):
                    about = {"verdict": Verdict(verdict).label, "note": note}
                    self.log_change(request, effect, gettext("Verdict: %(verdict)s. %(note)s") % about)
                else:
                    refused.append(refusal(effect.pk))
        return refused
