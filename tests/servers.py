"""Start real servers on a real database."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from _pytest.mark import ParameterSet
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.middleware.csrf import CSRF_SECRET_LENGTH
from django.test import Client
from django.utils.crypto import get_random_string
from pytest_django import DjangoDbBlocker

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"
START_SECONDS = 30
STOP_SECONDS = 10

RUNSERVER = """
import sys, django
from django.core.management.commands.runserver import Command
django.setup()
Command().run_from_argv(["manage.py", "runserver", *sys.argv[1:]])
"""


def _uvicorn(application: str, port: int) -> list[str]:
    return ["-m", "uvicorn", "--host", HOST, "--port", str(port), application]


def _daphne(application: str, port: int) -> list[str]:
    return ["-m", "daphne", "--bind", HOST, "--port", str(port), application]


def _hypercorn(application: str, port: int) -> list[str]:
    return ["-m", "hypercorn", "--bind", f"{HOST}:{port}", "--access-logfile", "-", "--error-logfile", "-", application]


def _granian(application: str, port: int) -> list[str]:
    return ["-m", "granian", "--interface", "asgi", "--host", HOST, "--port", str(port), "--access-log", application]


def _gunicorn(*options: str) -> Callable[[str, int], list[str]]:
    def arguments(application: str, port: int) -> list[str]:
        bind = f"{HOST}:{port}"
        return ["-m", "gunicorn", "--bind", bind, "--no-control-socket", "--access-logfile", "-", *options, application]

    return arguments


def _runserver(application: str, port: int) -> list[str]:
    # The command of core, since that of daphne would serve ASGI; it takes its application from WSGI_APPLICATION.
    return ["-c", RUNSERVER, "--noreload", f"{HOST}:{port}"]


ASGI_KINDS: dict[str, Callable[[str, int], list[str]]] = {
    "uvicorn": _uvicorn,
    "daphne": _daphne,
    "hypercorn": _hypercorn,
    "granian": _granian,
}
WSGI_KINDS: dict[str, Callable[[str, int], list[str]]] = {
    "gunicorn-gthread": _gunicorn("--worker-class", "gthread", "--threads", "16"),
    "gunicorn-sync": _gunicorn("--worker-class", "sync"),
    "runserver-wsgi": _runserver,
}
KINDS = ASGI_KINDS | WSGI_KINDS

# One of each interface, which runs on every database: what a server makes of the others' streams is the same on all.
ON_EVERY_DATABASE = ("uvicorn", "gunicorn-gthread")


def each(kinds: Iterable[str]) -> list[ParameterSet]:
    """Return the kinds as parameters of a test."""
    return [pytest.param(kind, marks=() if kind in ON_EVERY_DATABASE else pytest.mark.sqlite) for kind in kinds]


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
    return port


def accepts(port: int) -> bool:
    """Tell whether `port` takes connections."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


class ServerFailed(Exception):
    """The server ended, or accepted no connection in time; the message holds its log."""


class Server:
    """A server process and its children, in a process group of their own."""

    def __init__(self, arguments: Sequence[str], *, port: int, env: Mapping[str, str], log_path: Path) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        """Return all that the server has printed."""
        return self.log_path.read_text(errors="replace")

    def wait_until_accepting(self, timeout: float = START_SECONDS) -> None:
        """Return when the port takes connections; raise ServerFailed when that does not happen in `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not accepts(self.port):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=0.02)
            if self.process.returncode is not None:
                raise ServerFailed(f"exited with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"accepts no connection after {timeout} s:\n{self.log()}")

    def kill(self) -> None:
        """Send SIGKILL to the server and all its workers; return when they are gone and the port is closed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        psutil.wait_procs(self.members(), timeout=STOP_SECONDS)
        # A process counts as a zombie while its last threads still hold the socket.
        deadline = time.monotonic() + STOP_SECONDS
        while accepts(self.port) and time.monotonic() < deadline:
            time.sleep(0.01)

    def members(self) -> list[psutil.Process]:
        """Return the processes of the group that still run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                if os.getpgid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def terminate(self, timeout: float = STOP_SECONDS) -> int:
        """Send SIGTERM to the server, as a supervisor does, and return its exit code.

        Raises subprocess.TimeoutExpired when it has not ended after `timeout` seconds.
        """
        self.process.terminate()
        return self.process.wait(timeout)


def _start(
    kind: str, application: str, options: Sequence[str], *, port: int | None, env: Mapping[str, str], log_path: Path
) -> Server:
    chosen = free_port() if port is None else port
    if accepts(chosen):
        raise ServerFailed(f"port {chosen} is taken")
    server = Server([*KINDS[kind](application, chosen), *options], port=chosen, env=env, log_path=log_path)
    try:
        server.wait_until_accepting()
    except BaseException:
        server.kill()
        if port is None and "in use" in server.log():
            return _start(kind, application, options, port=free_port(), env=env, log_path=log_path)
        raise
    return server


@contextlib.contextmanager
def serve(
    kind: str,
    *,
    settings_module: str | None = None,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    application: str | None = None,
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """Run a server process of `kind`, a key of KINDS, while the block lasts.

    `settings_module` defaults to this process's DJANGO_SETTINGS_MODULE, `application` to `tests.asgi:application` or
    `tests.wsgi:application`; runserver takes its own from WSGI_APPLICATION. `env` is laid over this process's
    environment and `options` are added to the command line. When the block raises, the server's log is printed.
    Raises ServerFailed.
    """
    if application is None:
        application = "tests.asgi:application" if kind in ASGI_KINDS else "tests.wsgi:application"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(env or {})
    if settings_module is not None:
        environment["DJANGO_SETTINGS_MODULE"] = settings_module
    with tempfile.TemporaryDirectory(prefix="served-") as directory:
        log_path = Path(directory) / "server.log"
        server = _start(kind, application, options, port=port, env=environment, log_path=log_path)
        try:
            yield server
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.terminate()
        except BaseException:
            sys.stderr.write(f"--- {kind} {server.url}\n{server.log()}\n---\n")
            raise
        finally:
            server.kill()


@dataclass(frozen=True, slots=True)
class LiveDatabase:
    """A migrated database that other processes can reach."""

    name: str

    @property
    def env(self) -> dict[str, str]:
        """What makes the settings of a server process name this database."""
        return {"TEST_DATABASE_NAME": self.name}


def _create(directory: str) -> str:
    connection = connections["default"]
    if connection.vendor == "sqlite":
        return str(Path(directory) / "live.sqlite3")
    name = f"test_live_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    suffix = connection.creation.sql_table_creation_suffix()
    if connection.vendor == "mysql":
        suffix = suffix or "CHARACTER SET utf8mb4"
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)} {suffix}")
    return name


def _drop(name: str) -> None:
    connection = connections["default"]
    if connection.vendor == "sqlite":
        return
    force = "WITH (FORCE)" if connection.vendor == "postgresql" else ""
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {connection.ops.quote_name(name)} {force}")


@contextlib.contextmanager
def connected(name: str) -> Iterator[None]:
    """Point the default connection of this process at the database `name` while the block lasts."""
    database = connections.settings["default"]
    before, kept = database["NAME"], connections["default"]
    database["NAME"] = name
    connections["default"] = connections.create_connection("default")
    try:
        yield
    finally:
        connections["default"].close()
        database["NAME"] = before
        connections["default"] = kept


@contextlib.contextmanager
def create_live_database() -> Iterator[LiveDatabase]:
    """Create and migrate a database of the default alias's vendor; drop it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="live-database-") as directory:
        name = _create(directory)
        try:
            with connected(name):
                call_command("migrate", interactive=False, run_syncdb=True, verbosity=0)
            yield LiveDatabase(name)
        finally:
            _drop(name)


def session_headers(user: "User") -> dict[str, str]:
    """Log `user` in on the connected database; return the headers of a browser that shows it, CSRF token included."""
    client = Client()
    client.force_login(user)
    token = get_random_string(CSRF_SECRET_LENGTH)
    cookies = {
        settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value,
        settings.CSRF_COOKIE_NAME: token,
    }
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()), "X-CSRFToken": token}


@pytest.fixture(scope="session")
def migrated_database(django_db_blocker: DjangoDbBlocker) -> Iterator[LiveDatabase]:
    """Own the database that the tests of a session share, one after the other."""
    with contextlib.ExitStack() as stack:
        with django_db_blocker.unblock():
            database = stack.enter_context(create_live_database())
        yield database
        with django_db_blocker.unblock():
            stack.close()


@pytest.fixture
def live_database(migrated_database: LiveDatabase, django_db_blocker: DjangoDbBlocker) -> Iterator[LiveDatabase]:
    """Give a test an empty, committed database that it shares with servers; its own ORM uses it too.

    Pass `live_database.env` to `serve`. Not to be combined with the `db` fixtures or the `django_db` mark.
    """
    with django_db_blocker.unblock(), connected(migrated_database.name):
        call_command("flush", interactive=False, verbosity=0)
        yield migrated_database
