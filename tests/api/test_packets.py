"""On MariaDB what is over max_allowed_packet fails its own run (code `storage`) and holds up no other."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from tests.api.conftest import logged_in
from tests.api.posting import error, frames, post, user_message

KNOWN = [user_message("x", "u0"), {"id": "a0", "role": "assistant", "content": "y"}]


@pytest.mark.mariadb
@override_settings(DJANGO_PYDANTIC_AGENT={"STORE_PATIENCE_SECONDS": 1, "SHUTDOWN_GRACE_SECONDS": 1})
def test_states_that_add_up_to_more_than_a_packet_hold_up_nobody(live: None, user: User) -> None:
    def terminal(*args: Any, **fields: Any) -> str:
        answer = post(logged_in(user), *args, **fields)
        assert answer.status_code == 200
        event = frames(answer)[-1].event
        assert event is not None
        return str(event["type"])

    def say(key: str) -> str:
        return terminal("/talk/", f"r-{key}", [*KNOWN, user_message("hello", f"u-{key}")], state={key: '"' * 3_500_000})

    with ThreadPoolExecutor(3) as pool:
        # Each of the two states fits into a statement, both together do not.
        ended = [pool.submit(say, key) for key in "ab"]
        beside = pool.submit(terminal, "/agent/", "r-c", thread_id="t2")
        assert beside.result(20) == "RUN_FINISHED"
        assert sorted(run.result(20) for run in ended) == ["RUN_ERROR", "RUN_FINISHED"]


@pytest.mark.mariadb
def test_body_over_a_packet_is_too_large(live: None, user: User) -> None:
    answer = post(logged_in(user), "/agent/", "r1", '"' * 4_800_000)
    assert error(answer) == (413, "body_too_large")
