"""What a tool finds in `ctx.deps`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.request import RunRequest


@dataclass(kw_only=True)
class AgentDeps:
    """The run that a tool works for.

    `user` is the user the run acts for, `state` the AG-UI state, which a tool may change. `context` (a list of AG-UI
    context entries) and `forwarded_props` come from the post and are not to be trusted. `step_store` is the run's own
    handle on the ledger, None without one.
    """

    user: Any = None
    owner: Owner | None = None
    request: RunRequest | None = None
    state: Any = None
    context: Sequence[Any] = ()
    forwarded_props: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""
    thread_id: str = ""
    step_store: Any = None
