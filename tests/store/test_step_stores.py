"""The conformance suite on each store: over the project's database, live, scoped, and in memory."""

from typing import Any
from unittest import IsolatedAsyncioTestCase

from django.contrib.auth import get_user_model
from django.test import TestCase, TransactionTestCase, override_settings
from pydantic_ai_harness.step_persistence import InMemoryStepStore

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.live_log import LiveLog
from django_pydantic_agent.runs.recorder import Recorder
from django_pydantic_agent.stores import run_store_for
from django_pydantic_agent.stores.scoped import ScopedStepStore
from django_pydantic_agent.testing.step_store import DurableStepStoreConformance, StepStoreConformance
from tests.store.factories import new_run, request_of


class OfUser:
    """Make the store of a user; the bound on snapshots is a setting."""

    def setUp(self) -> None:
        super().setUp()
        self.user = get_user_model().objects.create(username="ada")

    def make_store(self, *, max_snapshots: int | None = None) -> Any:
        self.enterContext(override_settings(DJANGO_PYDANTIC_AGENT={"MAX_SNAPSHOTS_PER_RUN": max_snapshots}))
        return self.factory(request_of(self.user))

    def factory(self, request: Any) -> Any:
        return DefaultStepStore(request)


class TestDefaultStepStore(OfUser, DurableStepStoreConformance, TransactionTestCase):
    pass


class TestScopedDefaultStepStore(OfUser, DurableStepStoreConformance, TestCase):
    """Scoped, and inside a transaction of the caller's."""

    factory = ScopedStepStore(DefaultStepStore, scope="mount")


@override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
class TestC35WithoutTimeZones(OfUser, DurableStepStoreConformance, TestCase):
    pass


class TestRecordingStepStore(OfUser, DurableStepStoreConformance, TransactionTestCase):
    """A live run of the suite's usual id `run`, written by the recorder."""

    def setUp(self) -> None:
        super().setUp()
        owner = Owner.of_user(self.user)
        store = run_store_for(owner)
        run = store.create(new_run(owner, "run"), on_commit=lambda *_: None)
        recorder = Recorder()
        self.addCleanup(recorder.stop)
        journal = recorder.open(store, run, LiveLog(store, run.key, last_seq=run.last_seq, status=run.status))
        self.store = DefaultStepStore(request_of(self.user)).recording(journal)

    def factory(self, request: Any) -> Any:
        return self.store


class TestHarnessMemoryStore(StepStoreConformance, IsolatedAsyncioTestCase):
    def make_store(self, *, max_snapshots: int | None = None) -> InMemoryStepStore:
        return InMemoryStepStore(max_snapshots_per_run=max_snapshots)


class TestScopedHarnessMemoryStore(StepStoreConformance, IsolatedAsyncioTestCase):
    def make_store(self, *, max_snapshots: int | None = None) -> Any:
        store = InMemoryStepStore(max_snapshots_per_run=max_snapshots)
        return ScopedStepStore(lambda request: store, scope="mount")(None)
