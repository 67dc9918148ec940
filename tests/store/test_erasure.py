"""Erasing and exporting what an owner has."""

import json
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction

from django_pydantic_agent.contrib.store import erasure
from django_pydantic_agent.contrib.store.claiming import claim_at_login
from django_pydantic_agent.contrib.store.export import LEDGER
from django_pydantic_agent.contrib.store.models import HistoryMessage, Run, RunFrames, Thread, ThreadMessage
from django_pydantic_agent.exceptions import LeaseLost
from django_pydantic_agent.ownership import BUCKET_SESSION_KEY, Owner
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.base import RunQuery
from django_pydantic_agent.testing.step_store import prompt, snapshot
from tests.store.factories import request_of, step_store
from tests.store.test_pruning import ALL, ended, everything, going, leave_unresolved, store
from tests.store.test_run_store import create, write

pytestmark = pytest.mark.django_db(transaction=True)

BOB = Owner("user:1000")


def fill(owner: Owner) -> None:
    """Give an owner some of everything: live, waiting, unresolved and ended, in threads and outside, and a fork."""
    for thread in ("", "thread"):
        first = ended(f"first {thread}", owner=owner, thread=thread)
        ended(f"waiting {thread}", owner=owner, status=RunStatus.INTERRUPTED, thread=thread, parent=first)
        ended(f"unresolved {thread}", owner=owner, thread=thread)
        leave_unresolved(f"unresolved {thread}", owner)
        going(f"going {thread}", owner=owner, thread=thread)
        create(store, f"scoped {thread}", owner, scope="mount")


def ids(owner: Owner) -> set[str]:
    return {run.run_id for run in store.page(owner=owner, scope="", query=RunQuery()).runs}


def rows_of(owner: Owner) -> int:
    return Run.objects.of_owner(owner).count() + Thread.objects.of_owner(owner).count()


def erase(*arguments: str) -> str:
    out = StringIO()
    call_command("erase_owner", *arguments, stdout=out)
    return out.getvalue()


def failing(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    if sql.startswith("DELETE"):
        raise ValueError("killed")
    return execute(sql, params, many, context)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


class TestDeletionOfAUser:
    def test_nothing_of_a_deleted_user_is_left_and_everything_of_others(self, ada):
        fill(BOB)
        before = everything()
        fill(Owner.of_user(ada))
        ada.delete()
        assert everything() == before

    def test_a_query_that_deletes_users_erases_too(self, ada):
        fill(Owner.of_user(ada))
        User.objects.filter(username="ada").delete()
        assert everything() == [[]] * len(ALL)

    def test_a_deletion_that_is_rolled_back_erases_nothing(self, ada):
        fill(Owner.of_user(ada))
        before = everything()
        with transaction.atomic():
            ada.delete()
            transaction.set_rollback(True)
        assert everything() == before

    def test_a_live_run_can_write_nothing_any_more(self, ada):
        run = going("run", owner=Owner.of_user(ada))
        ada.delete()
        (refusal,) = store.commit([write(run, 3, b"a")])
        assert isinstance(refusal, LeaseLost)
        assert everything() == [[]] * len(ALL)

    def test_a_new_account_with_the_same_key_inherits_nothing_though_the_erasure_died(self, ada):
        pk, owner = ada.pk, Owner.of_user(ada)
        fill(owner)
        with connection.execute_wrapper(failing), pytest.raises(ValueError, match="killed"):
            erasure.erase(owner)
        assert rows_of(owner) == 0
        assert Run.objects.exists()
        User.objects.filter(pk=pk).update(username="bob")
        # Under the same ids, once more.
        fill(owner)
        again = everything()[0][-10:]
        with connection.execute_wrapper(failing), pytest.raises(ValueError, match="killed"):
            erasure.erase(owner)
        fill(owner)
        kept = everything()[0][-10:]
        assert erase("--left-over") == "2 threads and 20 runs of 2 owners deleted.\n"
        assert everything()[0] == kept != again

    def test_a_new_account_with_the_same_key_inherits_nothing_though_nothing_was_erased(self, ada):
        pk, owner = ada.pk, Owner.of_user(ada)
        fill(owner)
        User.objects.filter(pk=pk)._raw_delete(using="default")
        assert ids(owner)
        User.objects.create(pk=pk, username="eve")
        assert rows_of(owner) == 0
        User.objects.create(username="other")
        assert erase("--left-over") == "1 thread and 10 runs of 1 owner deleted.\n"
        assert everything() == [[]] * len(ALL)

    def test_nothing_is_left_of_a_post_that_was_in_flight(self, ada):
        user, owner = User.objects.get(pk=ada.pk), Owner.of_user(ada)
        ada.delete()
        create(store, "run", owner, user=user)
        assert everything() == [[]] * len(ALL)

    def test_nothing_is_left_of_a_login_that_was_in_flight(self, ada):
        request, user = request_of(ada), User.objects.get(pk=ada.pk)
        request.session = {BUCKET_SESSION_KEY: "b"}
        fill(Owner.of_bucket("b"))
        ada.delete()
        claim_at_login(sender=User, request=request, user=user)
        assert everything() == [[]] * len(ALL)

    @pytest.mark.parametrize("user", [None, SimpleNamespace(pk=1), User(pk=1)], ids=str)
    def test_who_is_no_row_of_the_table_of_users_keeps_what_is_started(self, user):
        create(store, "run", Owner("user:1"), user=user)
        assert ids(Owner("user:1")) == {"run"}

    def test_what_somebody_starts_for_another_owner_stays_with_that_one(self, ada):
        user = User.objects.get(pk=ada.pk)
        ada.delete()
        create(store, "run", BOB, user=user)
        assert ids(BOB) == {"run"}

    def test_a_user_who_is_saved_again_keeps_everything(self, ada):
        fill(Owner.of_user(ada))
        before = everything()
        User(pk=ada.pk, username="ada again").save()
        ada.save()
        assert everything() == before

    def test_a_store_that_fails_leaves_the_rest_to_the_command(self, ada, caplog, settings):
        settings.DJANGO_PYDANTIC_AGENT = {"STORE_PATIENCE_SECONDS": 0.1}
        fill(Owner.of_user(ada))

        def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if Thread._meta.db_table in sql:
                raise OperationalError("away")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(away):
            ada.delete()
        assert not User.objects.exists()
        assert "away" in caplog.text
        assert erase("--deleted-users") == "1 thread and 10 runs of 1 owner deleted.\n"
        assert everything() == [[]] * len(ALL)


class TestCommand:
    def test_it_erases_the_owner_it_is_told_in_batches_and_nobody_else(self, ada):
        for owner in (BOB, Owner.of_bucket("b")):
            fill(owner)
        before = everything()
        fill(Owner.of_user(ada))
        dry = erase("--user", str(ada.pk), "--dry-run")
        assert dry == "1 thread and 10 runs of 1 owner would be deleted.\n"
        assert rows_of(Owner.of_user(ada))
        assert erase("--user", str(ada.pk), "--batch-size=1") == dry.replace("would be ", "")
        assert everything() == before
        assert erase("anon:b") == dry.replace("would be ", "")
        assert not rows_of(Owner.of_bucket("b"))
        assert erase("anon:b") == "0 threads and 0 runs of 1 owner deleted.\n"

    def test_it_erases_the_owners_whose_user_is_gone_and_no_others(self, ada):
        fill(Owner.of_user(ada))
        fill(Owner.of_bucket("b"))
        before = everything()
        fill(BOB)
        ended("odd", owner=Owner("user:not a number"))
        assert erase("--deleted-users") == "1 thread and 10 runs of 1 owner deleted.\n"
        Run.objects.of_owner(Owner("user:not a number")).delete()
        HistoryMessage.objects.exclude(pk__in=[row[0] for row in before[-1]]).delete()
        assert everything() == before

    @pytest.mark.parametrize(
        ("arguments", "refusal"),
        [
            ([], "whose data"),
            (["7"], "not the key of an owner"),
            (["user:"], "not the key of an owner"),
            (["--user=x"], "not a primary key"),
            (["user:1", "--user=1"], "once"),
            (["user:1", "--batch-size=0"], "not a whole number"),
        ],
    )
    def test_an_argument_that_makes_no_sense_is_refused(self, arguments, refusal):
        fill(Owner("user:1"))
        before = everything()
        with pytest.raises(CommandError, match=refusal):
            erase(*arguments)
        assert everything() == before


class TestExport:
    def test_each_line_is_one_thing_of_the_owner_and_all_of_it(self, tmp_path):
        fill(BOB)
        fill(Owner("user:2"))
        path = tmp_path / "bob.jsonl"
        call_command("export_owner", BOB.key, output=path)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kinds: dict[str, list[Any]] = {}
        for line in lines:
            kinds.setdefault(line.pop("type"), []).append(line)
        assert {run["run_id"] for run in kinds["run"]} >= ids(BOB)
        assert len(kinds["run"]) == 10
        assert {run["owner"] for run in kinds["run"]} == {BOB.key}
        assert [thread["thread_id"] for thread in kinds["thread"]] == ["thread"]
        assert [message["message"]["id"] for message in kinds["message"]] == [
            f"m-{name} thread" for name in ("first", "waiting", "unresolved", "going")
        ]
        assert len(kinds["stepevent"]) == len(kinds["snapshot"]) == 8
        assert len(kinds["tooleffect"]) == 10
        assert len(kinds["event"]) == sum(run["last_seq"] for run in kinds["run"])
        text = json.dumps(kinds["model_message"])
        assert all(f"{name} {thread}" in text for name in ("first", "going") for thread in ("", "thread"))
        with pytest.raises(CommandError, match="there already"):
            call_command("export_owner", BOB.key, output=path)

    def test_each_model_of_the_app_is_exported_as_rows_or_in_a_form_of_its_own(self):
        in_a_form_of_its_own = {Thread, ThreadMessage, Run, RunFrames, HistoryMessage}
        assert {*LEDGER, *in_a_form_of_its_own} == set(apps.get_app_config(Run._meta.app_label).get_models())

    def test_what_a_run_goes_on_from_is_not_written_again(self):
        run = going("run")
        steps = step_store(run.owner)
        for number in range(3):
            async_to_sync(steps.save_snapshot)(snapshot("run", *[prompt(str(n)) for n in range(number + 1)]))
        out = StringIO()
        call_command("export_owner", "--user=1", stdout=out)
        assert out.getvalue().count('"type":"model_message"') == 3
