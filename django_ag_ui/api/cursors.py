"""Where in a run's log a viewer has stopped: `Last-Event-ID: <quoted run id>:<seq>`, or `?after=<seq>`."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote

from rest_framework.request import Request

from django_ag_ui.api.exceptions import CursorExpired, InvalidCursor
from django_pydantic_agent.stores.base import StoredRun

_SEQ = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last event that a viewer has seen, 0 for none; `run_id` is None where the viewer named no run."""

    run_id: str | None
    seq: int

    @classmethod
    def of(cls, request: Request) -> Self | None:
        """Return the cursor of a request, that of its header where it has two. Raises `InvalidCursor`."""
        if text := request.headers.get("Last-Event-ID"):
            return cls._parsed(text, needs_run=True)
        if (text := request.query_params.get("after")) is not None:
            return cls._parsed(text, needs_run=False)
        return None

    @classmethod
    def _parsed(cls, text: str, *, needs_run: bool) -> Self:
        name, colon, seq = text.rpartition(":")
        if not _SEQ.fullmatch(seq) or bool(name) is not bool(colon) or (needs_run and not name):
            raise InvalidCursor
        try:
            return cls(unquote(name, errors="strict") if name else None, int(seq))
        except UnicodeDecodeError:
            raise InvalidCursor from None

    def is_before(self, run_id: str) -> bool:
        """Return whether the viewer has seen nothing yet, of a run of this id."""
        return self.seq == 0 and self.run_id in (None, run_id)

    def check(self, run: StoredRun, *, first_seq: int, snapshot_url: str) -> None:
        """Raise `InvalidCursor` or `CursorExpired` where `run` cannot be followed from here on."""
        if self.run_id not in (None, run.run_id):
            raise InvalidCursor("the cursor is that of another run")
        if self.seq > run.last_seq and not run.status.is_live:
            raise InvalidCursor("the cursor is ahead of the run, which has ended")
        if self.seq < first_seq - 1:
            raise CursorExpired(snapshot_url)

    def is_at_end_of(self, run: StoredRun) -> bool:
        """Return whether nothing is left to be seen of a run, now and later."""
        return not run.status.is_live and self.seq >= run.last_seq
