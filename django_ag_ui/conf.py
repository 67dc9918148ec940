"""The `DJANGO_AG_UI` setting, and the configuration that a mount takes from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from django.conf import settings

from django_pydantic_agent.conf import suggestion

SETTING = "DJANGO_AG_UI"


@dataclass(frozen=True, slots=True, kw_only=True)
class AGUIConfig:
    """The configuration of one mount; each field is a key of `DJANGO_AG_UI` in lower case."""

    run_list_limit: int = 50
    """Rows of `runs/` in one answer; 0 lifts the limit."""
    thread_list_limit: int = 50
    """Rows of `threads/` in one answer; 0 lifts the limit."""
    max_body_bytes: int = 10 * 1024 * 1024
    """The longest request body; Django's DATA_UPLOAD_MAX_MEMORY_SIZE does not apply to the mount."""
    max_messages: int = 10_000
    """The most messages in one post."""
    keep_alive_seconds: float = 15
    """The silence after which an open stream gets a comment."""
    access_recheck_seconds: float = 30
    """How often the viewer of an open stream is authenticated and authorised again."""
    max_stream_seconds: float = 0
    """The longest stream, after which a viewer has to come back; 0 lifts the limit."""
    slow_viewer_seconds: float = 60
    """How long a viewer may take for one piece of a stream, at most 256 KiB, before it has to come back."""
    wsgi_max_stream_seconds: float = 20
    """The longest stream of a WSGI worker without threads, which serves nobody else meanwhile."""


DEFAULTS: Mapping[str, int | float] = {field.name: field.default for field in fields(AGUIConfig)}  # type: ignore[misc]

_MAY_BE_ZERO = frozenset({"run_list_limit", "thread_list_limit", "max_stream_seconds"})


def build_ag_ui_config(**keywords: Any) -> AGUIConfig:
    """Return the configuration of a mount: keywords first, then `DJANGO_AG_UI`, then the defaults.

    Raises `TypeError` for an unknown keyword and `ValueError` for a value that cannot be used.
    """
    for keyword in keywords:
        if keyword not in DEFAULTS:
            raise TypeError(f"build_ag_ui_config() got an unknown key {keyword!r}{suggestion(keyword, DEFAULTS)}")
    chosen = {key.lower(): value for key, value in getattr(settings, SETTING, {}).items() if is_known(key)} | keywords
    for key, value in chosen.items():
        if (fault := value_fault(key, value)) is not None:
            raise ValueError(f"{key} {fault}")
    return AGUIConfig(**chosen)


def is_known(key: object) -> bool:
    """Return whether `key` may stand in `DJANGO_AG_UI`."""
    return isinstance(key, str) and key.isupper() and key.lower() in DEFAULTS


def unknown_settings(values: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield each unknown key of `DJANGO_AG_UI` and a hint at the key that was meant."""
    known = [key.upper() for key in DEFAULTS]
    for key in values:
        if not is_known(key):
            yield str(key), suggestion(str(key).upper(), known)


def value_fault(key: str, value: Any) -> str | None:
    """Return what is wrong with the value of a known key, None where nothing is."""
    whole = isinstance(DEFAULTS[key], int) and not key.endswith("_seconds")
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return f"must be {'a whole number' if whole else 'a number'}, not {value!r}"
    if not isfinite(value):
        return f"must be finite, not {value!r}"
    if value < 0 or (value == 0 and key not in _MAY_BE_ZERO):
        return f"must be {'0 or more' if key in _MAY_BE_ZERO else 'more than 0'}, not {value!r}"
    return None
