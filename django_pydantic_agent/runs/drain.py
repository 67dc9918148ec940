"""Ending runs in good order when the process is told to stop."""

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

FAREWELL_SECONDS = 1.0
"""How long what the viewers were told last may take to reach them, where the process would end at once."""


def _shut_down() -> bool:
    # Imported here, because every command of a project installs the handler and few of them execute runs.
    from django_pydantic_agent.runs.engine import shut_down_engine

    return shut_down_engine()


def _shut_down_and_end(signum: int) -> None:
    if _shut_down():
        time.sleep(FAREWELL_SECONDS)
    os.kill(os.getpid(), signum)


class _Drain:
    """A signal handler that shuts the engine down besides what the one before it does."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if callable(self.previous):
            threading.Thread(target=_shut_down, name="agent-drain", daemon=True).start()
            self.previous(signum, frame)
        elif self.previous is signal.SIG_DFL:
            # Not in this thread, which may be the one that serves the viewers. A second signal ends the process.
            signal.signal(signum, signal.SIG_DFL)
            threading.Thread(target=_shut_down_and_end, args=[signum], name="agent-drain", daemon=True).start()


def drain_on_sigterm() -> None:
    """Have SIGTERM shut this process's engine down besides whatever it did before.

    No more runs begin, those that go on get SHUTDOWN_GRACE_SECONDS, and the streams that a server waits for end. Does
    nothing outside the main thread, where no signal handler can be set. Called again, it takes in what a server has
    put in its place meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    previous = signal.getsignal(signal.SIGTERM)
    if previous is not None and not isinstance(previous, _Drain):
        signal.signal(signal.SIGTERM, _Drain(previous))
