"""The scopes that a project can give a rate: `ag_ui_run` for what starts a run, `ag_ui_read` for all else."""

from collections.abc import Iterable
from typing import Any

RUN_SCOPE = "ag_ui_run"
READ_SCOPE = "ag_ui_read"


def rated_scopes(throttles: Iterable[Any]) -> set[str]:
    """Return those of the two scopes that have a rate; DRF's ScopedRateThrottle fails on one that has none."""
    rates = [getattr(throttle, "THROTTLE_RATES", None) or {} for throttle in throttles]
    return {scope for scope in (RUN_SCOPE, READ_SCOPE) if any(scope in known for known in rates)}
