"""The `DJANGO_PYDANTIC_AGENT` setting: defaults, and what a project changed of them."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

SETTING = "DJANGO_PYDANTIC_AGENT"
STORE_APP = "django_pydantic_agent.contrib.store"

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        # Where runs execute: alias -> {"BACKEND": dotted path}.
        "EXECUTORS": {
            "default": {"BACKEND": "django_pydantic_agent.runs.executors.local.LocalExecutor"},
        },
        # For every run of every mount; a mount's own keyword wins.
        "MODEL": None,
        "INSTRUCTIONS": None,
        "MODEL_SETTINGS": None,
        "USAGE_LIMITS": None,
        "RUN_TIMEOUT_SECONDS": None,
        # Threads in which synchronous tools and hooks run, per process.
        "TOOL_THREADS": 32,
        # A tool result longer than this is shortened in the log and on the wire; the model gets the whole.
        "MAX_RESULT_BYTES": 2 * 1024 * 1024,
        # How much the ledger shows of a tool call's arguments and of its result, 0 for nothing, and the names whose
        # values it does not show; a key that holds one of them is such a name too.
        "EFFECT_PREVIEW_CHARACTERS": 1_000,
        "REDACTED_KEYS": ("password", "token", "secret", "authorization", "api_key", "cookie"),
        # Events that may wait for a commit, per run, before the run itself waits.
        "PENDING_BYTES": 8 * 1024 * 1024,
        # Committed frames kept in memory for local viewers, per run.
        "LIVE_TAIL_BYTES": 1024 * 1024,
        # How often a process looks for news of runs that execute elsewhere and are followed here.
        "POLL_SECONDS": 0.25,
        # How often a process shows that its runs go on, and how long it must not have done so before another process
        # takes them over.
        "BEAT_SECONDS": 3.0,
        "LEASE_SECONDS": 10.0,
        # How often a run whose process has died is begun in all, where its mount resumes such runs.
        "MAX_ATTEMPTS": 3,
        # How long writing is retried while the database is away, before the runs are failed.
        "STORE_PATIENCE_SECONDS": 30.0,
        # How long a process that ends lets its runs go on.
        "SHUTDOWN_GRACE_SECONDS": 10.0,
        # How far apart a run saves its thread's messages between its acceptance and its end.
        "SNAPSHOT_MIN_SECONDS": 0.0,
        # How long an interrupt can be approved or denied; 0 is for ever.
        "APPROVAL_EXPIRY_SECONDS": 0,
        # The newest snapshots kept for each run; None keeps all of them.
        "MAX_SNAPSHOTS_PER_RUN": None,
        # How long the log of an ended run is kept at least; None keeps it for ever. The command prune_logs drops it.
        "LOG_RETENTION_DAYS": None,
    }
)


class _Settings:
    """The effective values, read once and again after the setting changed."""

    def __init__(self) -> None:
        self._values: dict[str, Any] | None = None
        setting_changed.connect(self._forget)

    def _forget(self, *, setting: str, **_: Any) -> None:
        if setting == SETTING:
            self._values = None

    def __getattr__(self, name: str) -> Any:
        if name not in DEFAULTS:
            raise AttributeError(f"{SETTING} has no setting {name!r}")
        if self._values is None:
            self._values = {**DEFAULTS, **getattr(settings, SETTING, {})}
        return self._values[name]


agent_settings = _Settings()


def suggestion(key: str, known: Iterable[str]) -> str:
    """Return a clause that names the nearest of `known`, empty where nothing is near."""
    nearest = get_close_matches(key, list(known), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
