"""What waits or watches outlasts a database that is away for a moment."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from pytest_django import Settings

from django_pydantic_agent.contrib.store.leases import DatabaseRunLeases
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.runs.engine import get_engine
from tests.api.agents import GATES
from tests.api.conftest import logged_in
from tests.api.posting import chunks, parse, post, user_message


def test_a_queued_run_outlasts_an_outage(live: None, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = chunks(post(logged_in(user), "/talk/", "r1", "wait here", thread_id="t1"))
    assert any(b"begun" in chunk for chunk in ahead)
    real, failures = DatabaseRunStore.ahead, iter([True, True])

    def away_for_a_moment(self: DatabaseRunStore, key: int) -> object:
        if next(failures, False):
            raise OperationalError("the database is away")
        return real(self, key)

    monkeypatch.setattr(DatabaseRunStore, "ahead", away_for_a_moment)
    second = post(logged_in(user), "/talk/", "r2", [user_message("b", "u2")], thread_id="t1")
    rest = ThreadPoolExecutor(1).submit(b"".join, chunks(second))
    GATES["here"].open()
    assert parse(rest.result(20))[-1].event["type"] == "RUN_FINISHED"


def test_a_viewer_outlasts_an_outage_at_its_first_read(live: None, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = logged_in(user)
    whole = b"".join(chunks(post(client, "/agent/", "r1", "hello")))
    events = "/agent/runs/r1/events/"
    get_engine()._recent.clear()
    real, failures = DatabaseRunStore.read_frames, iter([True])

    def away_for_a_moment(self: DatabaseRunStore, key: int, *, after: int, max_bytes: int) -> list[bytes]:
        if next(failures, False):
            raise OperationalError("the database is away")
        return real(self, key, after=after, max_bytes=max_bytes)

    monkeypatch.setattr(DatabaseRunStore, "read_frames", away_for_a_moment)
    assert b"".join(chunks(client.get(events))).replace(b": keep-alive\n\n", b"") == whole


def test_a_run_that_nobody_watches_is_not_cancelled_while_nobody_can_tell(
    live: None, user: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DJANGO_PYDANTIC_AGENT = {"BEAT_SECONDS": 0.05, "LEASE_SECONDS": 0.1}
    real, looked = DatabaseRunLeases.viewer_signs, threading.Semaphore(0)
    is_away = threading.Event()

    def away(self: DatabaseRunLeases, runs: object) -> object:
        looked.release()
        if is_away.is_set():
            raise OperationalError("the database is away")
        return real(self, runs)

    monkeypatch.setattr(DatabaseRunLeases, "viewer_signs", away)
    is_away.set()
    response = post(logged_in(user), "/watched/", "r1", "wait here")
    stream = chunks(response)
    while b"begun" not in next(stream):
        pass
    response.close()
    while looked.acquire(blocking=False):
        pass
    # The look that was going on when the viewer left, and three more.
    for _ in range(4):
        assert looked.acquire(timeout=20)
    assert Run.objects.get().status == "running"
    is_away.clear()
    get_engine().wait()
    assert Run.objects.get().status == "cancelled"
