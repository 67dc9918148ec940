"""The leases of runs in the project's database. No clock is kept: beats are counted, and whoever looks has a clock."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from django.db import connections, router, transaction
from django.db.models import F, Q

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.effects import effects_of
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.states import LIVE
from django_pydantic_agent.stores.base import RunStore, StoredRun
from django_pydantic_agent.stores.leases import RELEASED, Lease, Orphan


class DatabaseRunLeases:
    """The `RunLeases` of the runs in this app's tables; `store` reads the runs themselves."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def beat(self, epochs: Mapping[int, int]) -> Collection[int]:
        by_epoch: dict[int, list[int]] = {}
        for run, epoch in epochs.items():
            by_epoch.setdefault(epoch, []).append(run)
        mine = Q()
        for epoch, keys in by_epoch.items():
            mine |= Q(epoch=epoch, pk__in=keys)
        # A beat that comes late does not take a release back.
        runs = self._runs.filter(mine, beat__gt=RELEASED)
        with transaction.atomic(using=self._alias):
            self._lock(runs)
            if runs.update(beat=F("beat") + 1) == len(epochs):
                return ()
            return epochs.keys() - set(runs.values_list("pk", flat=True))

    def request_cancel(self, run: int) -> bool:
        return bool(self._runs.filter(pk=run, status__in=LIVE).update(cancel_requested=True))

    def cancelled(self, runs: Collection[int]) -> Collection[int]:
        return list(self._runs.filter(pk__in=runs, cancel_requested=True).values_list("pk", flat=True))

    def show_viewers(self, runs: Collection[int]) -> None:
        watched = self._runs.filter(pk__in=runs, status__in=LIVE, cancel_after__isnull=False)
        with transaction.atomic(using=self._alias):
            self._lock(watched)
            watched.update(viewer_signs=F("viewer_signs") + 1)

    def viewer_signs(self, runs: Collection[int]) -> Mapping[int, int]:
        return dict(self._runs.filter(pk__in=runs).values_list("pk", "viewer_signs"))

    def live(self) -> Sequence[Lease]:
        rows = self._runs.filter(status__in=LIVE).order_by("pk").values_list("pk", "epoch", "beat")
        return [Lease(run=run, epoch=epoch, beat=beat) for run, epoch, beat in rows]

    def take_over(self, lease: Lease) -> Orphan | None:
        """Begin the run's next epoch.

        None too where the database made this wait as long as a beat takes: it may have kept the run's process waiting
        for just as long, as SQLite does to all but one who write.
        """
        begun = time.monotonic()
        as_seen = self._runs.filter(pk=lease.run, epoch=lease.epoch, beat=lease.beat, status__in=LIVE)
        with transaction.atomic(using=self._alias):
            if not as_seen.update(epoch=lease.epoch + 1, beat=0):
                return None
            if time.monotonic() - begun > agent_settings.BEAT_SECONDS:
                transaction.set_rollback(True, using=self._alias)
                return None
        return self._orphan(lease.run)

    def begin_attempt(self, run: StoredRun) -> StoredRun | None:
        attempts = self._runs.filter(pk=run.key, epoch=run.epoch, attempt=run.attempt, status__in=LIVE)
        return replace(run, attempt=run.attempt + 1) if attempts.update(attempt=run.attempt + 1) else None

    def release(self, run: int, epoch: int) -> None:
        self._runs.filter(pk=run, epoch=epoch, status__in=LIVE).update(beat=RELEASED)

    @property
    def _alias(self) -> str:
        return router.db_for_write(Run)

    @property
    def _runs(self) -> RunQuerySet:
        return Run.objects.using(self._alias)

    def _lock(self, runs: RunQuerySet) -> None:
        """Lock runs by key, the order in which every transaction locks them."""
        if connections[self._alias].features.has_select_for_update:
            list(runs.select_for_update().order_by("pk").values_list("pk", flat=True))

    def _orphan(self, key: int) -> Orphan | None:
        columns = ("parent_id", "request", "cancel_requested", "scope", "in_thread__state_run")
        row = self._runs.filter(pk=key).values("owner", "in_thread", "in_thread__state_seq", *columns).first()
        run = None if row is None else self._store.by_key(key, owner=Owner(row["owner"]))
        if row is None or run is None:
            return None
        conversation = None
        if row["in_thread"] is not None:
            conversation = DefaultConversationStore(allow_anonymous=True)
            conversation.scope = row["scope"]
        tools = effects_of(key, using=self._alias).unresolved().values_list("tool_name", flat=True)
        return Orphan(
            run=run,
            parent=row["parent_id"],
            request=row["request"],
            cancel_requested=row["cancel_requested"],
            unresolved=list(dict.fromkeys(tools)),
            conversation=conversation,
            state_seq=row["in_thread__state_seq"] if row["in_thread__state_run"] == key else 0,
        )
