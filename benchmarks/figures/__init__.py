"""One module per figure, each with a `measure(rounds)` that yields its lines of the table."""

from django.contrib.auth.models import User

from benchmarks.sides import Side
from tests.servers import Server, session_headers


def mount(server: Server, path: str) -> Side:
    """Return a path of the Django side as a logged-in user of a browser sees it."""
    user, _ = User.objects.get_or_create(username="viewer")
    return Side(server, path, session_headers(user))
