"""One module per figure, each with a `measure(rounds)` that yields its lines of the table."""

from django.contrib.auth.models import User

from benchmarks.sides import Side
from tests.servers import Server, session_headers


def viewer() -> User:
    """Return the user whose runs are measured."""
    return User.objects.get_or_create(username="viewer")[0]


def mount(server: Server, path: str) -> Side:
    """Return a path of the Django side as the logged-in viewer's browser sees it."""
    return Side(server, path, session_headers(viewer()))
