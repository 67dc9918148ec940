"""Count, and slow down, what a server process asks the database."""

import os
import time
from typing import Any

VARIABLE = "LIVE_STATEMENT_SECONDS"


class Statements:
    """The number of statements so far; each takes `LIVE_STATEMENT_SECONDS` longer than the database needs."""

    def __init__(self) -> None:
        self.number = 0
        self._seconds = float(os.environ.get(VARIABLE, "0"))

    def watch(self, *, connection: Any, **_: Any) -> None:
        """Watch a connection that was just opened."""
        if self not in connection.execute_wrappers:
            connection.execute_wrappers.append(self)

    def __call__(self, execute: Any, *args: Any) -> Any:
        self.number += 1
        if self._seconds:
            time.sleep(self._seconds)
        return execute(*args)


statements = Statements()
