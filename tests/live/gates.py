"""Gates that a test holds, and at which the models and tools of any server process wait."""

import asyncio
import contextlib
import os
import socket
import threading
from collections import Counter, defaultdict

VARIABLE = "LIVE_GATES"
ARRIVAL_SECONDS = 30


class Gatekeeper:
    """Counts whoever arrives at a gate, by its name, and holds them until the test opens it.

    An arrival is one TCP connection, so a count outlives the process that arrived, and no gate outlives the test.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._held: defaultdict[str, list[socket.socket]] = defaultdict(list)
        self._opened: set[str] = set()
        self._thread = threading.Thread(target=self._serve, name="gatekeeper")
        self._thread.start()

    @property
    def env(self) -> dict[str, str]:
        """What leads a server process here."""
        return {VARIABLE: str(self._listener.getsockname()[1])}

    def open(self, name: str) -> None:
        """Let go whoever waits at the gate, or arrives later."""
        with self._changed:
            self._opened.add(name)
            for connection in self._held.pop(name, ()):
                _let_go(connection)

    def count(self, name: str) -> int:
        """Return how often somebody arrived at the gate."""
        with self._changed:
            return self._counts[name]

    def wait_reached(self, name: str, times: int = 1) -> None:
        """Return once somebody has arrived at the gate that often; raise TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._counts[name] >= times, ARRIVAL_SECONDS):
                raise TimeoutError(f"{self._counts[name]} of {times} arrived at {name!r}")

    def close(self) -> None:
        """Cut off whoever still waits."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        with self._changed:
            for connections in self._held.values():
                for connection in connections:
                    connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                with connection.makefile("r") as lines:
                    verb, _, name = lines.readline().rstrip("\n").partition(" ")
            except ConnectionError:
                continue
            except OSError:
                return
            with self._changed:
                self._counts[name] += 1
                if verb == "wait" and name not in self._opened:
                    self._held[name].append(connection)
                else:
                    _let_go(connection)
                self._changed.notify_all()


def _let_go(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"\n")


async def pass_gate(name: str) -> None:
    """Arrive at a gate of the test that started this process, and wait until it is open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[VARIABLE]))
    try:
        writer.write(f"wait {name}\n".encode())
        if not await reader.readline():
            raise ConnectionError("the gatekeeper is gone")
    finally:
        writer.close()


def pass_gate_blocking(name: str) -> None:
    """Do as `pass_gate` does in the calling thread."""
    _arrive("wait", name)


def count(name: str) -> None:
    """Be counted under a name, without waiting."""
    _arrive("count", name)


def _arrive(verb: str, name: str) -> None:
    with socket.create_connection(("127.0.0.1", int(os.environ[VARIABLE]))) as connection:
        connection.sendall(f"{verb} {name}\n".encode())
        if not connection.recv(1):
            raise ConnectionError("the gatekeeper is gone")
