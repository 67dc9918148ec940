"""Ending runs in good order when the process is told to stop."""

import os
import signal
import threading
from types import FrameType
from typing import Any


def _shut_down() -> None:
    # Imported here, because every command of a project installs the handler and few of them execute runs.
    from django_pydantic_agent.runs.engine import shut_down_engine

    shut_down_engine()


class _Drain:
    """A signal handler that shuts the engine down besides what the one before it does."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if callable(self.previous):
            threading.Thread(target=_shut_down, name="agent-drain", daemon=True).start()
            self.previous(signum, frame)
        elif self.previous is signal.SIG_DFL:
            _shut_down()
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)


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
