"""A proxy that cuts connections."""

import contextlib
import socket
import threading

from tests.servers import HOST, Server


class CuttingProxy:
    """Passes connections on to a server, and cuts each after `limit` bytes of what the server sends."""

    def __init__(self, server: Server, *, limit: int | None = None) -> None:
        self.server = server
        self.limit = limit
        self.connections = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self._thread = threading.Thread(target=self._serve, name="cutting proxy")
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Cut all connections."""
        for one in self._sockets:
            _shut(one)

    def close(self) -> None:
        """Cut all connections and take no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            upstream = socket.create_connection((HOST, self.server.port))
            self._sockets += [client, upstream]
            for source, target, limit in ((client, upstream, None), (upstream, client, self.limit)):
                threading.Thread(target=_pump, args=(source, target, limit), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    """Pass bytes on until the source ends or the limit is reached, and end both."""
    with source, contextlib.suppress(OSError):
        left = limit
        while left != 0 and (data := source.recv(65536 if left is None else left)):
            target.sendall(data)
            left = left and left - len(data)
        _shut(source)
    _shut(target)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
