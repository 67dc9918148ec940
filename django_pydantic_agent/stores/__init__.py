"""Where runs are kept."""

from functools import cache

from django.apps import apps

from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.base import RunStore

STORE_APP = "django_pydantic_agent.contrib.store"


def run_store_for(owner: Owner | None) -> RunStore:
    """Return where the runs of `owner` are kept: in the database where the store app is installed.

    Without the app, and for requests without a durable identity, runs live in this process's memory.
    """
    if owner is not None and apps.is_installed(STORE_APP):
        return _database_store()
    return _memory_store()


@cache
def _database_store() -> RunStore:
    from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore

    return DatabaseRunStore()


@cache
def _memory_store() -> RunStore:
    from django_pydantic_agent.stores.memory import MemoryRunStore

    return MemoryRunStore()
