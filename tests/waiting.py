"""Waiting for what another thread or process brings about."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, seconds: float = 30, pause: float = 0.005) -> T:
    """Return the first true answer of `look`; raise TimeoutError with the last one."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still {answer!r}")
        time.sleep(pause)
    return answer
