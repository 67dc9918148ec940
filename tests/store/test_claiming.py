"""A visitor's runs become the user's at login."""

import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection
from django.http import HttpRequest
from django.test import Client
from pydantic_ai_harness.step_persistence import RunRecord

from django_pydantic_agent.contrib.store import claiming
from django_pydantic_agent.contrib.store.claiming import claim_runs
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.ownership import BUCKET_SESSION_KEY, Owner
from django_pydantic_agent.stores.base import Idempotency, RunQuery
from django_pydantic_agent.testing.step_store import effect, event, prompt, snapshot
from tests.store.factories import new_run, step_store

pytestmark = pytest.mark.django_db

runs = DatabaseRunStore()


def user(name: str) -> Any:
    return get_user_model().objects.create_user(name, password="password")


def visit(client: Client) -> DefaultStepStore:
    """Return the step store of the client's session, as a mount with anonymous visitors makes it."""
    request = HttpRequest()
    request.session = client.session
    if not client.cookies:
        request.session.save()
    store = DefaultStepStore(request, allow_anonymous=True)
    client.cookies["sessionid"] = request.session.session_key
    return store


def run_ids(owner: Owner, scope: str = "") -> set[str]:
    return {run.run_id for run in runs.page(owner=owner, scope=scope, query=RunQuery()).runs}


@pytest.fixture
def visitor() -> Client:
    return Client()


class TestC24Login:
    def test_the_visitors_runs_become_the_users(self, visitor):
        store = visit(visitor)
        assert store.owner.is_anonymous
        for scope in ("", "mount"):
            runs.create(new_run(store.owner, "run", scope=scope), on_commit=lambda *_: None)
        async_to_sync(store.append_event)(event("run"))
        async_to_sync(store.save_snapshot)(snapshot("run", prompt("hi")))
        async_to_sync(store.record_tool_effect)(effect("run", "call"))
        ada = user("ada")
        assert visitor.login(username="ada", password="password")

        assert run_ids(store.owner) == set()
        assert run_ids(Owner.of_user(ada)) == {"run"}
        assert run_ids(Owner.of_user(ada), "mount") == {"run"}
        assert [run.thread_id for run in self.page(ada, thread_id="thread")] == ["thread"]
        mine = step_store(Owner.of_user(ada))
        assert len(async_to_sync(mine.list_events)(run_id="run")) == 1
        assert async_to_sync(mine.latest_snapshot)(run_id="run").messages == [prompt("hi")]
        assert len(async_to_sync(mine.list_unresolved_tool_effects)(run_id="run")) == 1

    @staticmethod
    def page(of: Any, **query: Any) -> Any:
        return runs.page(owner=Owner.of_user(of), scope="", query=RunQuery(**query)).runs

    def test_the_bucket_is_gone_from_the_session(self, visitor):
        store = visit(visitor)
        runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
        key = visitor.session.session_key
        user("ada")
        visitor.login(username="ada", password="password")
        assert BUCKET_SESSION_KEY not in visitor.session
        assert visitor.session.session_key != key

    def test_the_next_user_of_the_browser_sees_nothing_of_it(self, visitor):
        store = visit(visitor)
        runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
        user("ada")
        bob = user("bob")
        visitor.login(username="ada", password="password")
        visitor.logout()
        assert visit(visitor).owner != store.owner
        visitor.login(username="bob", password="password")
        assert run_ids(Owner.of_user(bob)) == set()

    def test_another_user_who_logs_in_on_top_sees_nothing_of_it(self, visitor):
        ada, bob = user("ada"), user("bob")
        visitor.login(username="ada", password="password")
        runs.create(new_run(Owner.of_user(ada), "run"), on_commit=lambda *_: None)
        visitor.login(username="bob", password="password")
        assert run_ids(Owner.of_user(bob)) == set()
        assert run_ids(Owner.of_user(ada)) == {"run"}

    def test_a_flushed_session_leaves_the_runs_unreachable(self, visitor):
        store = visit(visitor)
        runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
        session: SessionStore = visitor.session
        session.flush()
        ada = user("ada")
        visitor.login(username="ada", password="password")
        assert run_ids(Owner.of_user(ada)) == set()
        assert run_ids(store.owner) == {"run"}

    def test_a_database_that_fails_does_not_fail_the_login(self, visitor, caplog):
        store = visit(visitor)
        runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
        ada = user("ada")

        def failing(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if sql.startswith("UPDATE") and Run._meta.db_table in sql:
                raise OperationalError("away")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(failing):
            assert visitor.login(username="ada", password="password")
        assert "could not be given" in caplog.text
        assert visitor.session[BUCKET_SESSION_KEY]
        visitor.login(username="ada", password="password")
        assert run_ids(Owner.of_user(ada)) == {"run"}

    @pytest.mark.postgres
    def test_a_claim_that_the_database_refuses_leaves_the_transaction_of_the_login_usable(self, visitor):
        store = visit(visitor)
        runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
        user("ada")

        def refused(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            is_claim = sql.startswith("SELECT") and Run._meta.db_table in sql
            return execute("SELECT 1 FROM nowhere" if is_claim else sql, None if is_claim else params, many, context)

        with connection.execute_wrapper(refused):
            assert visitor.login(username="ada", password="password")
        assert run_ids(store.owner) == {"run"}

    def test_an_ordinary_login_asks_for_nothing(self, visitor, django_assert_num_queries):
        request = HttpRequest()
        request.session = {}
        with django_assert_num_queries(0):
            claiming.claim_at_login(None, request, user=None)
            claiming.claim_at_login(None, HttpRequest(), user=None)


class TestClaimRuns:
    source, target = Owner.of_bucket("bucket"), Owner("user:1")

    def test_ids_that_the_user_has_already_stay_behind(self):
        for owner in (self.source, self.target):
            runs.create(new_run(owner, "same", digest=owner.key[:4] * 16), on_commit=lambda *_: None)
        runs.create(new_run(self.source, "other"), on_commit=lambda *_: None)
        assert claim_runs(self.source, self.target) == 1
        assert run_ids(self.target) == {"same", "other"}
        assert run_ids(self.source) == {"same"}
        assert runs.get(owner=self.target, scope="", run_id="same").digest == "user" * 16

    def test_an_idempotency_key_goes_with_its_run(self):
        key = Idempotency(key="k", content="c" * 64)
        run = runs.create(new_run(self.source, "keyed", idempotency=key), on_commit=lambda *_: None)
        assert claim_runs(self.source, self.target) == 1
        assert runs.by_idempotency_key("k", owner=self.source, scope="", server="server") is None
        found = runs.by_idempotency_key("k", owner=self.target, scope="", server="server")
        assert (found.key, found.content_digest) == (run.key, "c" * 64)

    def test_a_run_whose_idempotency_key_the_user_has_already_stays_behind(self):
        key = Idempotency(key="k", content="c" * 64)
        for owner, run_id in [(self.source, "ours"), (self.target, "theirs")]:
            runs.create(new_run(owner, run_id, idempotency=key), on_commit=lambda *_: None)
        runs.create(new_run(self.source, "other"), on_commit=lambda *_: None)
        assert claim_runs(self.source, self.target) == 1
        assert run_ids(self.target) == {"theirs", "other"}

    def test_any_number_goes_in_batches(self, monkeypatch, django_assert_max_num_queries):
        monkeypatch.setattr(claiming, "BATCH_SIZE", 10)
        for number in range(25):
            runs.create(new_run(self.source, str(number)), on_commit=lambda *_: None)
        with django_assert_max_num_queries(3 * 7 + 3):
            assert claim_runs(self.source, self.target) == 25
        assert claim_runs(self.source, self.target) == 0
        assert len(run_ids(self.target)) == 25

    def test_parents_conversations_and_delegates_are_found_again(self):
        store = step_store(self.source)
        async_to_sync(store.register_run)(RunRecord(run_id="run", conversation_id="c"))
        async_to_sync(store.register_run)(RunRecord(run_id="child", parent_run_id="run", conversation_id="c"))
        assert claim_runs(self.source, self.target) == 2
        listed = async_to_sync(step_store(self.target).list_runs)(parent_run_id="run", conversation_id="c")
        assert [record.run_id for record in listed] == ["child"]


@pytest.mark.postgres
@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_a_run_that_the_user_starts_meanwhile_stays_the_users(monkeypatch):
    source, target = Owner.of_bucket("bucket"), Owner("user:1")
    for run_id in ("same", "other"):
        runs.create(new_run(source, run_id), on_commit=lambda *_: None)
    found = claiming._without_clashes

    def start_one_meanwhile(batch: Any, alias: str) -> Any:
        free = found(batch, alias)
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        return free

    def start() -> None:
        runs.create(new_run(target, "same"), on_commit=lambda *_: None)
        connection.close()

    monkeypatch.setattr(claiming, "_without_clashes", start_one_meanwhile)
    assert claim_runs(source, target) == 1
    assert run_ids(target) == {"same", "other"}
    assert run_ids(source) == {"same"}


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_the_database_undoes_is_made_again(visitor):
    store = visit(visitor)
    runs.create(new_run(store.owner, "run"), on_commit=lambda *_: None)
    ada = user("ada")
    outages = [OperationalError("deadlock")]

    def away_once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if outages and sql.startswith("UPDATE") and Run._meta.db_table in sql:
            raise outages.pop()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(away_once):
        assert visitor.login(username="ada", password="password")
    assert not outages
    assert run_ids(Owner.of_user(ada)) == {"run"}
