"""Message histories as chains of rows, each of which holds only what is new."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.backends.base.base import BaseDatabaseWrapper

from django_pydantic_agent.contrib.store.models import HistoryMessage
from django_pydantic_agent.contrib.store.recursive import fetch_recursive
from django_pydantic_agent.contrib.store.rows import Row, pieces

COLUMNS = ("writer", "number", "piece", "base_writer", "base_number", "base_size", "size", "body")


@dataclass(frozen=True, slots=True)
class Link:
    """A row of a chain: what it adds begins at byte `start`."""

    writer: int
    number: int
    start: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The rows that make up one history of `size` bytes, from its beginning."""

    links: tuple[Link, ...] = ()
    size: int = 0

    @property
    def reference(self) -> tuple[int, int, int]:
        """The row and the number of bytes by which a snapshot names this history."""
        return (self.links[-1].writer, self.links[-1].number, self.size) if self.links else (0, 0, 0)

    def cut(self, size: int) -> "Chain":
        """Return the chain of the first `size` bytes, without the rows that it does not need."""
        count = len(self.links)
        while count and self.links[count - 1].start >= size:
            count -= 1
        return Chain(self.links[:count], size)

    def extend(self, writer: int, number: int, suffix: bytes) -> tuple["Chain", list[Row]]:
        """Return the chain that goes on with `suffix`, and the rows of a new link, none where nothing is added."""
        if not suffix:
            return self, []
        base_writer, base_number, base_size = self.reference if self.links else (None, None, 0)
        size = self.size + len(suffix)
        rows = [
            (writer, number, piece, base_writer, base_number, base_size, size, body) for piece, body in pieces(suffix)
        ]
        return Chain((*self.links, Link(writer, number, self.size)), size), rows


@dataclass(slots=True)
class HistoryReader:
    """Reads histories; rows that several of them share are read once."""

    connection: BaseDatabaseWrapper
    _rows: dict[tuple[int, int], tuple[tuple[int, int] | None, int, bytes]] = field(default_factory=dict)

    def read(self, writer: int, number: int, size: int) -> tuple[bytes, Chain]:
        """Return the bytes of a history and the chain that they came from."""
        parts: list[bytes] = []
        links: list[Link] = []
        row: tuple[int, int] | None = (writer, number) if size else None
        end = size
        while row is not None:
            if row not in self._rows:
                self._load(*row)
            base, start, body = self._rows[row]
            parts.append(body[: end - start])
            links.append(Link(*row, start))
            row, end = base, start
        return b"".join(reversed(parts)), Chain(tuple(reversed(links)), size)

    def preload(self, writers: Iterable[int]) -> None:
        """Read all rows of these writers at once."""
        rows = HistoryMessage.objects.using(self.connection.alias).filter(writer__in=set(writers))
        self._keep(rows.order_by("writer", "number", "piece").values_list(*COLUMNS))

    def _load(self, writer: int, number: int) -> None:
        names = ", ".join(f"h.{column}" for column in COLUMNS)
        table = self.connection.ops.quote_name(HistoryMessage._meta.db_table)
        rows = fetch_recursive(
            self.connection,
            f"""
            WITH RECURSIVE path(writer, number) AS (
                SELECT writer, number FROM {table} WHERE writer = %s AND number = %s AND piece = 0
                UNION ALL
                SELECT h.base_writer, h.base_number
                FROM {table} h JOIN path ON h.writer = path.writer AND h.number = path.number
                WHERE h.piece = 0 AND h.base_writer IS NOT NULL
            )
            SELECT {names} FROM path JOIN {table} h ON h.writer = path.writer AND h.number = path.number
            ORDER BY h.writer, h.number, h.piece
            """,  # noqa: S608
            [writer, number],
        )
        self._keep(rows)
        if (writer, number) not in self._rows:
            raise LookupError(f"history {writer}:{number} is gone")

    def _keep(self, rows: Iterable[Row]) -> None:
        for writer, number, piece, base_writer, base_number, base_size, _, body in rows:
            key = (writer, number)
            base = None if base_writer is None else (base_writer, base_number)
            before = self._rows[key][2] if piece else b""
            self._rows[key] = (base, base_size, before + bytes(body))
