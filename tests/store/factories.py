"""Requests and runs for the tests of the store app."""

from typing import Any

from django.http import HttpRequest

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import NewRun, StoredRun
from django_pydantic_agent.stores.writes import Ending


def request_of(user: Any) -> HttpRequest:
    request = HttpRequest()
    request.user = user
    return request


def new_run(owner: Owner | None, run_id: str, *, parent: StoredRun | None = None, **fields: Any) -> NewRun:
    values: dict[str, Any] = {
        "scope": "",
        "thread_id": "thread",
        "server": "server",
        "input": b"{}",
        "digest": "0" * 64,
        "protocol": "1.0",
        "message_ids": [f"message of {run_id}"],
        "first_frame": lambda revision: b'{"type":"RUN_STARTED"}',
        **fields,
    }
    return NewRun(owner=owner, run_id=run_id, parent=parent, **values)


def ending(status: RunStatus = RunStatus.FINISHED, *, frame: bytes = b"end", **fields: Any) -> Ending:
    return Ending(status=status, frame=lambda revision: frame, **fields)


def step_store(owner: Owner) -> DefaultStepStore:
    """Return the store of whoever `owner` is."""
    store = DefaultStepStore(HttpRequest())
    store.owner = owner
    return store
