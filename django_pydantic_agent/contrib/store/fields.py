"""Columns that read back what was written, on every database and under every time zone setting."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _Field = models.Field[Any, Any]
    _TextField = models.TextField[str | None, str | None]
    _CharField = models.CharField[Any, Any]
else:
    _Field, _TextField, _CharField = models.Field, models.TextField, models.CharField

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(instant: datetime) -> int:
    """Return the microseconds between the epoch and `instant`, which is in UTC where it is naive."""
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Return the instant, in UTC, that many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=microseconds)


class InstantField(_Field):
    """An instant, stored as microseconds since the epoch and read as an aware datetime in UTC.

    A DateTimeField keeps local time where `USE_TZ` is off, which is ambiguous in the hour that occurs twice.
    """

    description = "Instant (microseconds since the epoch)"

    def get_internal_type(self) -> str:
        return "BigIntegerField"

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return to_microseconds(value) if isinstance(value, datetime) else value

    def from_db_value(self, value: int | None, expression: Any, connection: Any) -> datetime | None:
        return None if value is None else from_microseconds(value)


class OptionalTextField(_TextField):
    """Text of a harness record, in which None and the empty string are two values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"blank": True, "null": True, **kwargs})


class DigestField(_CharField):
    """A SHA-256 in hexadecimal: of one length, and compared alike by every collation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"max_length": 64, "editable": False, **kwargs})
