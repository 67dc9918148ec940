from tests.api.conftest import client, live, other, project, stranger, user  # noqa: F401
