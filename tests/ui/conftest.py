from tests.api.conftest import client, live, other, project, stranger, user

__all__ = ["client", "live", "other", "project", "stranger", "user"]
