"""What the commands say to who types something odd, and to who stops reading."""

import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.ownership import Owner
from tests.store.test_erasure import fill, rows_of
from tests.store.test_pruning import ended, leave_unresolved

pytestmark = pytest.mark.django_db(transaction=True)

ADA = Owner("user:1")
LONG = "9" * 5_000
BATCHED = {"erase_owner": "user:1", "prune_runs": "--older-than=1", "prune_logs": "--older-than=1"}


def told(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("size", ["10001", str(10**30), LONG])
@pytest.mark.parametrize(("command", "argument"), BATCHED.items())
def test_a_batch_is_no_larger_than_a_statement_can_be(command: str, argument: str, size: str):
    with pytest.raises(CommandError, match="not a whole number from 1 to 10000"):
        told(command, argument, f"--batch-size={size}")
    assert told(command, argument, "--batch-size=10000")


@pytest.mark.parametrize(
    "arguments",
    [
        ["erase_owner", LONG],
        ["erase_owner", f"--user={LONG}"],
        ["erase_owner", "user:1", f"--batch-size={LONG}"],
        ["export_owner", LONG],
        ["prune_runs", f"--older-than={LONG}"],
        ["prune_logs", f"--older-than={LONG}"],
        ["settle_effect", LONG, "happened"],
        ["settle_effect", str(2**63), "happened"],
        ["settle_effect", "x", "happened"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_a_refusal_repeats_only_the_beginning_of_what_is_refused(arguments: list[str]):
    with pytest.raises(CommandError) as refusal:
        told(*arguments)
    assert len(str(refusal.value)) < 250


def test_keys_that_the_table_of_users_cannot_hold_are_those_of_no_deleted_user():
    fill(ADA)
    for key in (str(2**63), str(-(2**70)), LONG):
        ended(f"run of {key[:20]}", owner=Owner(f"user:{key}"))
    assert told("erase_owner", "--deleted-users") == "1 thread and 10 runs of 1 owner deleted.\n"
    assert rows_of(Owner(f"user:{LONG}")) == 1


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_an_owner_that_is_named_twice_is_counted_once(more: list[str]):
    fill(ADA)
    done = "would be deleted" if more else "deleted"
    expected = f"1 thread and 10 runs of 1 owner {done}.\n"
    assert told("erase_owner", ADA.key, "--deleted-users", *more) == expected


def test_what_is_counted_is_what_was_deleted(monkeypatch: pytest.MonkeyPatch):
    from django_pydantic_agent.contrib.store import erasure

    def set_aside(owner: Owner, real: Any = erasure.set_aside) -> Owner:
        ended("late", owner=owner)
        return real(owner)

    fill(ADA)
    monkeypatch.setattr(erasure, "set_aside", set_aside)
    assert told("erase_owner", ADA.key) == "1 thread and 11 runs of 1 owner deleted.\n"


@pytest.mark.parametrize("path", ["missing/ada.jsonl", "file/ada.jsonl", "", "x" * 300])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, path: str):
    (tmp_path / "file").touch()
    output = tmp_path / path
    with pytest.raises(CommandError) as refusal:
        told("export_owner", ADA.key, f"--output={output}")
    assert str(output) in str(refusal.value)


@pytest.mark.sqlite
@pytest.mark.parametrize("arguments", [["export_owner", ADA.key], ["settle_effect"]], ids=" ".join)
@pytest.mark.parametrize("runs", [1, 40])
def test_who_stops_reading_is_told_of_no_error(arguments: list[str], runs: int):
    for number in range(runs):
        ended(f"run {number}", owner=ADA)
        leave_unresolved(f"run {number}", ADA)
    assert ToolEffect.objects.unresolved().count() == runs
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as out, pytest.raises(SystemExit):
        call_command(*arguments, stdout=out)
