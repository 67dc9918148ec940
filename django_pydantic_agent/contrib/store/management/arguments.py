"""Arguments that several commands take."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.models import BigIntegerField

from django_pydantic_agent.ownership import ANONYMOUS, ERASED, USER, Owner

MOST_DAYS = 36_500
LARGEST_BATCH = 10_000

REPEATED_CHARACTERS = 80
"""How much of what somebody has typed is repeated in what refuses it."""


def shown(text: str) -> str:
    """Return an argument as it is quoted, without what is too long of it."""
    return repr(text if len(text) <= REPEATED_CHARACTERS else f"{text[:REPEATED_CHARACTERS]}…")


def days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MOST_DAYS:
        raise ArgumentTypeError(f"{shown(text)} is not a number of days from 0 to {MOST_DAYS}")
    return number


def days_ago(number: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=min(number, MOST_DAYS))


def batch_size(text: str) -> int:
    return _whole_number(text, 1, LARGEST_BATCH)


def row_key(text: str) -> int:
    return _whole_number(text, 0, BigIntegerField.MAX_BIGINT)


def _whole_number(text: str, lowest: int, highest: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = lowest - 1
    if not lowest <= number <= highest:
        raise ArgumentTypeError(f"{shown(text)} is not a whole number from {lowest} to {highest}")
    return number


def owner_key(text: str) -> Owner:
    if not any(text.startswith(prefix) and text != prefix for prefix in (USER, ANONYMOUS, ERASED)):
        raise ArgumentTypeError(f"{shown(text)} is not the key of an owner: user:<primary key> or anon:<bucket>")
    return Owner(text)


def add_batches(parser: ArgumentParser, *, of: str, done: str) -> None:
    """Add `--batch-size`, how many `of` what in one transaction, and `--dry-run`, in which nothing is `done`."""
    parser.add_argument("--batch-size", type=batch_size, default=100, metavar="N", help=f"{of} per transaction (100)")
    parser.add_argument("--dry-run", action="store_true", help=f"only say how much would be {done}")


def add_owner(parser: ArgumentParser) -> None:
    parser.add_argument("owner", type=owner_key, nargs="?", help="user:<primary key> or anon:<bucket>")
    parser.add_argument("--user", metavar="PK", help="the owner that the user of this primary key is, there or deleted")


def owner_of(owner: Owner | None, user: str | None) -> Owner | None:
    """Return the owner that the arguments of `add_owner` name, None where they name none."""
    if user is None:
        return owner
    if owner is not None:
        raise CommandError("Name the owner once, by its key or by --user.")
    model: Any = get_user_model()
    try:
        return Owner.of_user(model(pk=model._meta.pk.to_python(user)))
    except ValidationError:
        raise CommandError(f"{shown(user)} is not a primary key of a user.") from None
