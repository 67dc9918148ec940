"""What survives of the HTTP request that started a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_pydantic_agent.ownership import Owner

KEPT_HEADERS = frozenset({"accept-language", "origin", "user-agent", "x-request-id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request as callables and step-store factories see it, in this process or in a worker.

    `headers` holds only the names in `KEPT_HEADERS`, in lower case; `body` is the raw body in bytes; `request_context`
    is the JSON that `context_for_request` returned in the view.
    """

    user: Any
    owner: Owner | None
    run_id: str
    thread_id: str
    method: str = "POST"
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    request_context: Any = None
