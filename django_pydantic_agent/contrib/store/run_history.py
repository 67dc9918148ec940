"""The model's messages of a live run, kept in its row at every boundary."""

import logging
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from django.db import connections, router
from django.db.models import Max
from pydantic_ai.messages import ModelMessage

from django_pydantic_agent.contrib.store.changes import BoundaryReached
from django_pydantic_agent.contrib.store.history import HistoryReader
from django_pydantic_agent.contrib.store.messages import Recording, load
from django_pydantic_agent.contrib.store.models import HistoryMessage, Run
from django_pydantic_agent.contrib.store.rows import Row, row_size

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class DatabaseRunHistory:
    """What one run has saved of its history; the step store of the run goes on from the same record.

    `changes` numbers the changes of the run and `stretches` its rows of history, whoever makes them.
    """

    key: int
    recording: Recording = field(default_factory=Recording.empty)
    changes: "count[int]" = field(default_factory=lambda: count(1))
    stretches: "count[int]" = field(default_factory=lambda: count(1), repr=False)
    _seed: tuple[int, int, int] = (0, 0, 0)

    def begin(self, run: int | None, at: Literal["start", "end"] = "end") -> list[ModelMessage]:
        """Return what an earlier run began with or ended with, and go on from there; nothing where `run` is None."""
        if run is None:
            return []
        prefix = "seed" if at == "start" else "history"
        alias = router.db_for_write(Run)
        columns = (f"{prefix}_writer", f"{prefix}_number", f"{prefix}_size")
        reference = Run.objects.using(alias).filter(pk=run).values_list(*columns).first()
        if reference is None or not reference[2]:
            return []
        history, chain = HistoryReader(connections[alias]).read(*reference)
        messages = load(history)
        self.go_on(Recording.of(chain, history, messages))
        return messages

    def resume(self) -> list[ModelMessage]:
        """Return the newest boundary that earlier attempts at this run have reached, and write behind all of theirs."""
        alias = router.db_for_write(Run)
        names = ("writer", "number", "size")
        columns = [f"{prefix}_{name}" for prefix in ("seed", "history") for name in names]
        ledger_seq, *references = Run.objects.using(alias).values_list("ledger_seq", *columns).get(pk=self.key)
        written = HistoryMessage.objects.using(alias).filter(writer=self.key)
        self.changes = count(ledger_seq + 1)
        self.stretches = count((written.aggregate(last=Max("number"))["last"] or 0) + 1)
        seed, newest = tuple(references[:3]), tuple(references[3:])
        history, chain = HistoryReader(connections[alias]).read(*newest)
        messages = load(history)
        self.go_on(Recording.of(chain, history, messages))
        self._seed = seed
        return messages

    def save(self, messages: list[ModelMessage], *, seq: int) -> BoundaryReached | None:
        """Return the change that makes `messages`, as of seq `seq`, the newest boundary.

        A boundary whose messages have no JSON form at all is left out, with a line in the log.
        """
        try:
            rows = self.write(messages)
        except Exception:
            logger.warning("A boundary of run %d at seq %d cannot be saved.", self.key, seq, exc_info=True)
            return None
        return BoundaryReached(
            number=next(self.changes),
            size=sum(map(row_size, rows)),
            run=self.key,
            history=rows,
            seed=self._seed,
            reference=self.reference,
            seq=seq,
        )

    def write(self, messages: list[ModelMessage]) -> list[Row]:
        """Go on to `messages` and return the history rows that this takes."""
        return self.recording.save(messages, writer=self.key, number=next(self.stretches))

    def go_on(self, recording: Recording) -> None:
        """Go on from a history that was read elsewhere."""
        self.recording = recording
        self._seed = recording.chain.reference

    @property
    def reference(self) -> tuple[int, int, int]:
        """The stretch of history and the size by which the newest messages are found."""
        return self.recording.chain.reference
