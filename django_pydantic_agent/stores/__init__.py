"""Where runs are kept."""

from functools import cache

from django.apps import apps

from django_pydantic_agent.conf import STORE_APP
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.base import RunStore


def run_store_for(owner: Owner | None) -> RunStore:
    """Return where the runs of `owner` are kept: in the database where the store app is installed.

    Without the app, and for requests without a durable identity, runs live in this process's memory.
    """
    return (durable_store() if owner is not None else None) or _memory_store()


def durable_store() -> RunStore | None:
    """Return the store that all processes of the project share, None where the store app is not installed."""
    return _database_store() if apps.is_installed(STORE_APP) else None


@cache
def _database_store() -> RunStore:
    from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore

    return DatabaseRunStore()


@cache
def _memory_store() -> RunStore:
    from django_pydantic_agent.stores.memory import MemoryRunStore

    return MemoryRunStore()
