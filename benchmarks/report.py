"""Measured figures, their bounds, and the table of both."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """At least or at most `limit`."""

    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= self.at_most

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table; without a bound it is reported only."""

    what: str
    value: float
    unit: str = ""
    bound: Bound | None = None

    @property
    def holds(self) -> bool:
        return self.bound is None or self.bound.holds(self.value)

    def columns(self) -> tuple[str, str, str, str]:
        verdict = "" if self.bound is None else "yes" if self.holds else "NO"
        return self.what, f"{self.value:.4g} {self.unit}".strip(), str(self.bound or ""), verdict


def table(rows: Iterable[Measured]) -> str:
    """Return the rows as a table in Markdown, each column as wide as it needs to be."""
    lines = [("figure", "measured", "bound", "holds"), *(row.columns() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
