"""Ending runs in good order when the process is told to stop."""

import os
import signal
import threading
from types import FrameType

from django_pydantic_agent.runs.engine import drain_engine


def drain_on_sigterm() -> None:
    """Have SIGTERM drain this process's engine besides whatever it did before.

    Runs get SHUTDOWN_GRACE_SECONDS and are then ended, which also ends the streams that a server waits for. Does
    nothing outside the main thread, where no signal handler can be set.
    """
    previous = signal.getsignal(signal.SIGTERM)
    if previous is None or threading.current_thread() is not threading.main_thread():
        return

    def drain(signum: int, frame: FrameType | None) -> None:
        if callable(previous):
            threading.Thread(target=drain_engine, name="agent-drain", daemon=True).start()
            previous(signum, frame)
        elif previous is signal.SIG_DFL:
            drain_engine()
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    signal.signal(signal.SIGTERM, drain)
