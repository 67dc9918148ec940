"""A source that is deleted between two looks at it is one that does not exist: 404, never 500."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from django_ag_ui.api.turns import ThreadPost
from tests.api.conftest import logged_in
from tests.api.posting import error, post, user_message


@pytest.mark.parametrize("thread_id", ["t1", "t2"])
@pytest.mark.parametrize("moment", ["view", "continuation"])
def test_source_deleted_while_it_is_continued(
    live: None, user: User, monkeypatch: pytest.MonkeyPatch, settings: Settings, thread_id: str, moment: str
) -> None:
    client = logged_in(user)
    b"".join(post(client, "/talk/", "r1", "hello", thread_id="t1"))
    real = getattr(ThreadPost, moment)

    def deleted_behind(self: ThreadPost, *args: Any, **keywords: Any) -> Any:
        found = real(self, *args, **keywords)
        logged_in(user).delete("/talk/threads/t1/")
        return found

    monkeypatch.setattr(ThreadPost, moment, deleted_behind)
    answer = post(client, "/talk/fork/r1/", "r2", [user_message("b", "u2")], thread_id=thread_id)
    assert error(answer) == (404, "not_found")
