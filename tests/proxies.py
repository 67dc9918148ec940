"""A door to the database that a test shuts: what connects through it loses the database, as when that is restarted."""

import contextlib
import selectors
import socket
import threading
from pathlib import Path

BUFFER_BYTES = 1 << 16


class Proxy:
    """Passes TCP connections on to a database; while it is shut it cuts them and takes no new ones.

    `host` is a name, the path of a socket, or the directory in which PostgreSQL has its sockets.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._is_shut = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._serve, name="proxy", daemon=True).start()

    def shut(self) -> None:
        with self._lock:
            self._is_shut = True
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        with self._lock:
            self._is_shut = False

    def close(self) -> None:
        self.shut()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_shut:
                    client.close()
                    continue
                server = _connection(*self._upstream)
                self._open |= {client, server}
            threading.Thread(target=self._pass_on, args=[client, server], name="proxied", daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        try:
            with selectors.DefaultSelector() as selector:
                for connection in other:
                    selector.register(connection, selectors.EVENT_READ)
                while True:
                    for key, _ in selector.select():
                        connection = key.fileobj
                        assert isinstance(connection, socket.socket)
                        data = connection.recv(BUFFER_BYTES)
                        if not data:
                            return
                        other[connection].sendall(data)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= other.keys()
            for connection in other:
                connection.close()


def _connection(host: str, port: int) -> socket.socket:
    path = Path(host)
    if not path.is_absolute():
        return socket.create_connection((host, port))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path / f".s.PGSQL.{port}" if path.is_dir() else path))
    return connection
