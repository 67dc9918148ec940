"""What the ledger shows of tool calls, and what people say of those whose outcome nobody knows."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

MAX_NOTE_CHARACTERS = 2_000
"""The longest note of a verdict."""


class Reason(TextChoices):
    """Why nobody knows whether a tool call has acted."""

    CANCELLED = "cancel", _("cancel")
    CRASHED = "crash", _("crash")
    TIMED_OUT = "timeout", _("timeout")


class Verdict(TextChoices):
    HAPPENED = "happened", _("it happened")
    DID_NOT_HAPPEN = "did_not_happen", _("it did not happen")
    IGNORED = "ignored", _("ignored")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEffect:
    """One tool call of a run or of a delegate inside it.

    `status` is `started`, `completed` or `failed`; `reason` says why a call stays `started`: `crash`, `cancel` or
    `timeout`. `arguments` and `result` are short texts without secrets. `verdict` is empty until a person gave one.
    """

    key: int
    run_id: str
    tool_call_id: str
    tool_name: str
    status: str
    started_at: datetime
    ended_at: datetime | None = None
    effect_summary: str | None = None
    reason: str = ""
    arguments: str = ""
    result: str = ""
    idempotency_key: str | None = None
    verdict: str = ""
    verdict_by: str = ""
    verdict_at: datetime | None = None
    verdict_note: str = ""

    @property
    def is_unresolved(self) -> bool:
        """Whether the call has neither an outcome nor a verdict."""
        return self.status == "started" and not self.verdict
