"""How long the recorder pauses between two commits."""

import time

# The pause after a commit, in seconds, and as a multiple of the processor time that the commit took, in a process that
# idles and in one that is busy: short while there is time, so that viewers wait little; long when there is none, so
# that writing takes little from the agents.
SHORTEST_PAUSE = 0.004
IDLE_PAUSE_PER_COMMIT = 5.0
BUSY_PAUSE_PER_COMMIT = 40.0
LONGEST_PAUSE = 0.1
# The time over which it is judged how busy the process is, in seconds.
LOAD_SECONDS = 0.02


class Pace:
    """How long to pause between two commits, by how busy the process is."""

    def __init__(self) -> None:
        self._load = 0.0
        self._wall, self._busy = time.monotonic(), time.process_time()

    def pause_after(self, commit_seconds: float) -> float:
        """Return the pause in seconds after a commit that took `commit_seconds` of processor time."""
        wall, busy = time.monotonic(), time.process_time()
        elapsed = wall - self._wall
        if elapsed > 0:
            load = (busy - self._busy) / elapsed
            self._load += (min(load, 1.0) - self._load) * min(elapsed / LOAD_SECONDS, 1.0)
        self._wall, self._busy = wall, busy
        # The cube, so that a process that is half busy still is quick.
        per_commit = IDLE_PAUSE_PER_COMMIT + (BUSY_PAUSE_PER_COMMIT - IDLE_PAUSE_PER_COMMIT) * self._load**3
        return min(max(SHORTEST_PAUSE, commit_seconds * per_commit), LONGEST_PAUSE)
