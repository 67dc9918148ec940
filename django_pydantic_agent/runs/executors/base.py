"""Where runs execute: the base of the back ends, and the way to one by its alias."""

from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections
from django.utils.module_loading import import_string

from django_pydantic_agent.conf import SETTING, agent_settings
from django_pydantic_agent.exceptions import WrongTestCase
from django_pydantic_agent.stores.base import NewRun, RunStore, StoredRun

if TYPE_CHECKING:
    from django_pydantic_agent.runs.engine import Engine
    from django_pydantic_agent.runs.plan import RunPlan


class BaseExecutor:
    """Begins the execution of runs that the engine has accepted."""

    sees_open_transactions = False
    """Whether a run can read what its starter has not committed yet, as in a test that is rolled back."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        self.alias = alias
        self.options = params.get("OPTIONS", {})

    def check(self, store: RunStore) -> None:
        """Raise `WrongTestCase` inside a `TestCase` whose transaction the run could not see."""
        if store.durable and not self.sees_open_transactions and _in_test_case():
            raise WrongTestCase(
                f"A TestCase never commits, so the executor {self.alias!r} cannot see the run: use a "
                "TransactionTestCase, or set DJANGO_PYDANTIC_AGENT['EXECUTORS'] to "
                "{'default': {'BACKEND': 'django_pydantic_agent.runs.executors.immediate.ImmediateExecutor'}}."
            )

    def watch_leases(self, engine: "Engine") -> None:
        """Have this process look for runs whose process is gone, but for tests that would not see what it does."""
        if not self.sees_open_transactions and not _in_test_case():
            engine.watch_leases()

    def start(self, engine: "Engine", plan: "RunPlan", new: NewRun) -> StoredRun:
        """Write the run and begin it; return it as it was written."""
        raise NotImplementedError("subclasses of BaseExecutor must provide a start() method")


@cache
def get_executor(alias: str) -> BaseExecutor:
    """Return the executor of an alias in `DJANGO_PYDANTIC_AGENT["EXECUTORS"]`."""
    try:
        params = agent_settings.EXECUTORS[alias]
        backend = import_string(params["BACKEND"])
    except (KeyError, TypeError, ImportError) as error:
        raise ImproperlyConfigured(f"{SETTING}['EXECUTORS'] has no usable executor {alias!r}: {error}") from error
    executor: BaseExecutor = backend(alias, params)
    return executor


def _in_test_case() -> bool:
    return any(
        getattr(block, "_from_testcase", False)
        for connection in connections.all(initialized_only=True)
        for block in connection.atomic_blocks
    )


def _forget_executors(*, setting: str, **_: Any) -> None:
    if setting == SETTING:
        get_executor.cache_clear()


setting_changed.connect(_forget_executors)
