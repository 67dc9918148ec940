"""What several commands write."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with what it counts."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


@contextmanager
def while_read(out: Any) -> Iterator[IO[str]]:
    """Let lines be written to `out` and end the command where nobody reads them any more, as `head` does not."""
    try:
        yield out
        out.flush()
    except BrokenPipeError:
        # What is not written yet is tried once more when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        raise SystemExit(1) from None
