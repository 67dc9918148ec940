"""System checks of the engine's settings; docs/reference/checks.md lists them."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from django_pydantic_agent.conf import DEFAULTS, SETTING, suggestion

_POSITIVE = frozenset(
    {"TOOL_THREADS", "MAX_RESULT_BYTES", "PENDING_BYTES", "LIVE_TAIL_BYTES", "POLL_SECONDS", "STORE_PATIENCE_SECONDS"}
)


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the keys and values of `DJANGO_PYDANTIC_AGENT`."""
    values = getattr(settings, SETTING, {})
    if not isinstance(values, dict):
        return [Error(f"{SETTING} must be a dictionary.", id="django_pydantic_agent.E001")]
    unknown = [
        Error(
            f"{SETTING} has no key {key!r}{suggestion(str(key).upper(), DEFAULTS) or '.'}",
            id="django_pydantic_agent.E002",
        )
        for key in values
        if key not in DEFAULTS
    ]
    unusable = [
        Error(f"{SETTING}[{key!r}] must be a number above 0, not {values[key]!r}.", id="django_pydantic_agent.E003")
        for key in sorted(_POSITIVE & values.keys())
        if isinstance(values[key], bool) or not isinstance(values[key], int | float) or values[key] <= 0
    ]
    return [*unknown, *unusable]


@register
def check_executors(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that every executor can be made, and that there is a default one."""
    from django_pydantic_agent.conf import agent_settings
    from django_pydantic_agent.runs.executors.base import get_executor

    aliases = agent_settings.EXECUTORS if isinstance(getattr(settings, SETTING, {}), dict) else {}
    messages: list[CheckMessage] = []
    for alias in dict.fromkeys(["default", *aliases]):
        try:
            get_executor(alias)
        except ImproperlyConfigured as error:
            messages.append(Error(f"{error}.", id="django_pydantic_agent.E004"))
    return messages
