"""`{% ag_ui_picker %}`, the list of a mount in any template, and what the templates of the pages use."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from django import template
from django.http import QueryDict
from django.template.context import RequestContext
from django.urls import resolve, reverse
from django.utils.timesince import timesince
from django.utils.translation import gettext
from rest_framework.exceptions import APIException

from django_pydantic_agent.policy.failure import FAILURES

register = template.Library()


@register.inclusion_tag("django_ag_ui/ui/_embedded.html", takes_context=True)
def ag_ui_picker(context: RequestContext, namespace: str = "ag_ui", **kwargs: Any) -> dict[str, Any]:
    """Show the newest of the mount whose URL namespace this is; `kwargs` are what its URL takes.

    What searches and filters leads to the mount's own page. The context needs `request`. Whoever may not use the mount
    sees nothing.
    """
    from django_ag_ui.ui.picker import PickerView, picker_context

    request = copy.copy(context["request"])
    request.GET = QueryDict()
    request.resolver_match = resolve(reverse(f"{namespace}:ui", kwargs=kwargs))
    view = PickerView(**request.resolver_match.func.initkwargs)
    view.setup(request, **kwargs)
    try:
        view.admit(request)
        shown = picker_context(view)
    except APIException:
        return {}
    return {**shown, "addresses": view.addresses, "nonce": uuid4(), "csrf_token": context.get("csrf_token")}


@register.simple_tag
def ag_ui_failures() -> list[tuple[str, str]]:
    """Return why the engine ends runs, in the words that are sent and in those of the page's language."""
    return [(failure.message, gettext(failure.message)) for failure in FAILURES]


@register.filter
def ago(moment: datetime) -> str:
    """Return how long ago a moment was, in one unit."""
    if datetime.now(UTC) - moment < timedelta(minutes=1):
        return gettext("just now")
    return gettext("{time} ago").format(time=timesince(moment, depth=1))
