"""System checks of the engine's settings; docs/reference/checks.md lists them."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from django_pydantic_agent.agents.build import option_fault
from django_pydantic_agent.conf import DEFAULTS, SETTING, agent_settings, suggestion

# The settings that are numbers, and what they have to be.
_ABOVE_ZERO = "a number above 0"
_ZERO_TOO = "a number, 0 or more"
_NONE_TOO = "a number above 0 or None"
_WHOLE = "a whole number above 0"
_WHOLE_OR_ZERO = "a whole number, 0 or more"
_WHOLE_OR_NONE = "a whole number above 0 or None"
_NUMBERS = {
    "TOOL_THREADS": _WHOLE,
    "MAX_RESULT_BYTES": _WHOLE,
    "EFFECT_PREVIEW_CHARACTERS": _WHOLE_OR_ZERO,
    "PENDING_BYTES": _WHOLE,
    "LIVE_TAIL_BYTES": _WHOLE,
    "POLL_SECONDS": _ABOVE_ZERO,
    "BEAT_SECONDS": _ABOVE_ZERO,
    "LEASE_SECONDS": _ABOVE_ZERO,
    "MAX_ATTEMPTS": _WHOLE,
    "STORE_PATIENCE_SECONDS": _ABOVE_ZERO,
    "SHUTDOWN_GRACE_SECONDS": _ZERO_TOO,
    "SNAPSHOT_MIN_SECONDS": _ZERO_TOO,
    "APPROVAL_EXPIRY_SECONDS": _ZERO_TOO,
    "RUN_TIMEOUT_SECONDS": _NONE_TOO,
    "MAX_SNAPSHOTS_PER_RUN": _WHOLE_OR_NONE,
    "LOG_RETENTION_DAYS": _NONE_TOO,
}


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
        Error(f"{SETTING}[{key!r}] must be {_NUMBERS[key]}, not {values[key]!r}.", id="django_pydantic_agent.E003")
        for key in sorted(_NUMBERS.keys() & values.keys())
        if not _fits(values[key], _NUMBERS[key])
    ]
    if not _are_names(names := values.get("REDACTED_KEYS", ())):
        text = f"{SETTING}['REDACTED_KEYS'] must be a list of names, not {names!r}."
        unusable.append(Error(text, id="django_pydantic_agent.E003"))
    return [*unknown, *unusable]


@register
def check_agent_defaults(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check what every agent is given, as far as that can be seen without pydantic-ai."""
    values = getattr(settings, SETTING, {})
    if not isinstance(values, dict):
        return []
    return [
        Error(f"{SETTING}[{key!r}] must be {wanted}, not {values[key]!r}.", id="django_pydantic_agent.E006")
        for key in ("MODEL", "INSTRUCTIONS", "MODEL_SETTINGS", "USAGE_LIMITS")
        if (wanted := option_fault(key.lower(), values.get(key))) is not None
    ]


@register
def check_lease(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that a run whose process is alive is never taken over because one beat came late."""
    values = getattr(settings, SETTING, {})
    if check_settings(app_configs):
        return []
    beat, lease = ({**DEFAULTS, **values}[key] for key in ("BEAT_SECONDS", "LEASE_SECONDS"))
    if lease >= 2 * beat:
        return []
    return [
        Error(
            f"{SETTING}['LEASE_SECONDS'] must be at least twice BEAT_SECONDS ({beat}), not {lease}.",
            id="django_pydantic_agent.E005",
        )
    ]


@register
def check_executors(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that every executor can be made, and that there is a default one."""
    from django_pydantic_agent.runs.executors.base import get_executor

    aliases = agent_settings.EXECUTORS if isinstance(getattr(settings, SETTING, {}), dict) else {}
    messages: list[CheckMessage] = []
    for alias in dict.fromkeys(["default", *aliases]):
        try:
            get_executor(alias)
        except ImproperlyConfigured as error:
            messages.append(Error(f"{error}.", id="django_pydantic_agent.E004"))
    return messages


def _fits(value: Any, wanted: str) -> bool:
    if value is None:
        return wanted in (_NONE_TOO, _WHOLE_OR_NONE)
    is_whole = wanted in (_WHOLE, _WHOLE_OR_ZERO, _WHOLE_OR_NONE)
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
        return False
    return isfinite(value) and (value > 0 or (value == 0 and wanted in (_ZERO_TOO, _WHOLE_OR_ZERO)))


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) and name.strip("-_") for name in value)
