"""Statements that MariaDB closes the connection over: refused beforehand, and found out where they were not."""

from typing import Any

import pytest
from django.db import connection

from django_pydantic_agent.contrib.store import packets
from django_pydantic_agent.contrib.store.changes import EventAppended
from django_pydantic_agent.contrib.store.models import Run, StepEvent
from django_pydantic_agent.contrib.store.records import event_row
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.exceptions import UnstorableWrite, WriteTooLarge
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.stores.base import StoredRun
from django_pydantic_agent.stores.writes import RunWrite
from django_pydantic_agent.testing.step_store import event
from tests.store.factories import ending, new_run

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

ADA = Owner("user:1")


@pytest.fixture
def store() -> DatabaseRunStore:
    return DatabaseRunStore()


def create(store: DatabaseRunStore, run_id: str, **fields: Any) -> StoredRun:
    return store.create(new_run(ADA, run_id, **fields), on_commit=lambda *_: None)


def ended_with(run: StoredRun, message: str) -> RunWrite:
    end = ending(error={"code": "c", "message": message})
    return RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, frames=[b"a"], ending=end)


def connection_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("text", ["x" * 17_000_000, '"' * 4_200_000, "\N{SNOWMAN}" * 5_600_000])
def test_a_statement_over_a_packet_is_refused_unsent_and_fails_its_run_only(store: DatabaseRunStore, text: str) -> None:
    large, beside = create(store, "large"), create(store, "beside")
    before = connection_id()
    refused, saved = store.commit([ended_with(large, text), ended_with(beside, "short")])
    assert isinstance(refused, UnstorableWrite)
    assert isinstance(refused.__cause__, WriteTooLarge)
    assert saved is None
    assert connection_id() == before


@pytest.mark.parametrize("text", ["x" * 16_000_000, '"' * 4_000_000, "\N{SNOWMAN}" * 5_400_000])
def test_a_statement_that_fits_once_it_is_escaped_is_written(store: DatabaseRunStore, text: str) -> None:
    run = create(store, "run")
    assert store.commit([ended_with(run, text)]) == [None]
    assert Run.objects.get().error == {"code": "c", "message": text}


def test_rows_that_are_over_a_packet_together_are_written_apart(store: DatabaseRunStore) -> None:
    run = create(store, "run")
    text = "\N{GRINNING FACE}" * 1_000_000
    events = [
        EventAppended(number=number, run=run.key, row=event_row(run.key, event("run", key=str(number), tool_name=text)))
        for number in range(1, 9)
    ]
    write = RunWrite(key=run.key, epoch=1, first_seq=2, begins=True, frames=[b"a"], ledger=events)
    assert store.commit([write]) == [None]
    assert StepEvent.objects.filter(tool_name=text).count() == 8


def test_a_write_that_closes_every_connection_fails_its_run_and_no_other(
    store: DatabaseRunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "max_packet", lambda connection: None)
    large, beside = create(store, "large"), create(store, "beside")
    refused, saved = store.commit([ended_with(large, "x" * 17_000_000), ended_with(beside, "short")])
    assert isinstance(refused, UnstorableWrite)
    assert saved is None
    assert store.progress([large.key, beside.key])[beside.key][0] == 3
    assert store.progress([large.key])[large.key][0] == 1


def test_an_input_over_a_packet_is_refused(store: DatabaseRunStore) -> None:
    with pytest.raises(WriteTooLarge):
        create(store, "large", input=b'"' * 9_000_000)
    assert not Run.objects.exists()
