"""The log of one run in the database: read behind a cursor, merged at rest, dropped from its beginning."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from django.db import connections, transaction
from django.db.models import F, QuerySet

from django_pydantic_agent.contrib.store.models import Run, RunFrames
from django_pydantic_agent.contrib.store.querysets import RunQuerySet
from django_pydantic_agent.contrib.store.rows import Row, insert, pieces
from django_pydantic_agent.exceptions import LogPruned
from django_pydantic_agent.log.frames import within_bytes

FRAME_COLUMNS = ("run_id", "first_seq", "last_seq", "piece", "is_compressed", "size", "data")

# A stretch of this many bytes is decompressed at once to read a part of it.
MERGED_BYTES = 256 * 1024

STRETCHES_PER_READ = 1_000

StoredPiece = tuple[int, int, bool, bytes | memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """The stretches of the log of the run with this primary key."""

    run: int
    using: str

    @property
    def first_seq(self) -> int:
        """The seq from which on the log is kept."""
        return self._run.values_list("first_seq", flat=True).first() or 1

    def read(self, *, after: int, max_bytes: int) -> list[bytes]:
        """Return frames from seq `after + 1` on: one, if there is one, and more up to `max_bytes`.

        Raises `LogPruned` where there was one that is not kept any more.
        """
        behind = self._stretches.filter(last_seq__gt=after)
        while (last := _last_within(behind, max_bytes)) is not None:
            frames: list[bytes] = []
            for first_seq, stretch in _joined(_read(behind.filter(last_seq__lte=last))):
                if not frames and first_seq > after + 1:
                    raise LogPruned(first_seq)
                frames += stretch[max(after + 1 - first_seq, 0) :]
            if frames:
                return within_bytes(frames, max_bytes)
            # The stretches were merged between the two queries.
        if (first_kept := self.first_seq) > after + 1:
            raise LogPruned(first_kept)
        return []

    def merge(self) -> None:
        """Replace loose stretches by few and compressed ones."""
        loose = self._stretches.filter(is_compressed=False)
        group: list[int] = []
        group_size = 0
        for last_seq, size in loose.filter(piece=0).order_by("last_seq").values_list("last_seq", "size"):
            if group and group_size + size > MERGED_BYTES:
                self._merge(loose.filter(last_seq__range=(group[0], group[-1])))
                group, group_size = [], 0
            group.append(last_seq)
            group_size += size
        if group:
            self._merge(loose.filter(last_seq__range=(group[0], group[-1])))

    def drop(self, *, through: int, stretches: int) -> bool:
        """Drop the frames up to seq `through`, of so many stretches at once; False where there are none left.

        The run's `first_seq` names the first frame that is left, after every transaction.
        """
        with transaction.atomic(using=self.using):
            if not self._lock(first_seq__lte=through):
                return False
            doomed = self._stretches.filter(piece=0, first_seq__lte=through).order_by("last_seq")
            last = max(doomed.values_list("last_seq", flat=True)[:stretches], default=through)
            rest: list[bytes] = []
            if last > through:
                for first_seq, frames in _joined(_read(self._stretches.filter(last_seq=last))):
                    rest = frames[through + 1 - first_seq :]
            self._stretches.filter(last_seq__lte=last).delete()
            if rest:
                self._insert(through + 1, rest)
            self._run.update(first_seq=min(last, through) + 1)
        return True

    @property
    def _run(self) -> RunQuerySet:
        runs: RunQuerySet = Run.objects.using(self.using)
        return runs.filter(pk=self.run)

    @property
    def _stretches(self) -> "QuerySet[RunFrames]":
        return RunFrames.objects.using(self.using).filter(run=self.run)

    def _lock(self, **conditions: int) -> bool:
        """Lock the run, as every transaction does first, by an update: SQLite wants to be told of a writer."""
        return bool(self._run.filter(**conditions).update(last_seq=F("last_seq")))

    def _merge(self, stretches: "QuerySet[RunFrames]") -> None:
        """Replace consecutive stretches by one, compressed; leave them where somebody else is doing it."""
        rows = _read(stretches)
        frames = [frame for _, stretch in _joined(rows) for frame in stretch]
        if not rows or rows[0][0] + len(frames) - 1 != rows[-1][1]:
            return
        with transaction.atomic(using=self.using):
            if not self._lock():
                return
            if stretches.delete()[0] == len(rows):
                self._insert(rows[0][0], frames)
            else:
                transaction.set_rollback(True, using=self.using)

    def _insert(self, first_seq: int, frames: Sequence[bytes]) -> None:
        rows = stretch_rows(self.run, first_seq, frames, compress=True)
        insert(connections[self.using], RunFrames, FRAME_COLUMNS, rows)


def stretch_rows(run: int, first_seq: int, frames: Sequence[bytes], *, compress: bool = False) -> list[Row]:
    """Return the rows of a stretch of the log."""
    data = b"\n".join(frames)
    last_seq = first_seq + len(frames) - 1
    stored = zlib.compress(data) if compress else data
    return [(run, first_seq, last_seq, piece, compress, len(data), part) for piece, part in pieces(stored)]


def _read(stretches: "QuerySet[RunFrames]") -> list[StoredPiece]:
    rows = stretches.order_by("last_seq", "piece").values_list("first_seq", "last_seq", "is_compressed", "data")
    return list(rows)


def _joined(rows: Iterable[StoredPiece]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the first seq and the frames of each stretch."""
    for (first_seq, _, is_compressed), parts in groupby(rows, key=itemgetter(0, 1, 2)):
        data = b"".join(part[3] for part in parts)
        yield first_seq, (zlib.decompress(data) if is_compressed else data).split(b"\n")


def _last_within(stretches: "QuerySet[RunFrames]", max_bytes: int) -> int | None:
    """Return the last seq of the last stretch, in order, up to which they hold `max_bytes`, at least one of them."""
    last = None
    sizes = stretches.filter(piece=0).order_by("last_seq").values_list("last_seq", "size")
    for last_seq, size in sizes[:STRETCHES_PER_READ]:
        max_bytes -= size
        if last is not None and max_bytes < 0:
            break
        last = last_seq
    return last
