"""What a project meets that tests its agent in Django's test cases."""

import json

import pytest
from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase, override_settings

from django_pydantic_agent.exceptions import WrongTestCase

IMMEDIATE = {"EXECUTORS": {"default": {"BACKEND": "django_pydantic_agent.runs.executors.immediate.ImmediateExecutor"}}}

BODY = {
    "threadId": "t1",
    "runId": "r1",
    "messages": [{"id": "m1", "role": "user", "content": "go"}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {},
}


def text(response) -> str:
    """Return what the assistant said in a stream that ended well."""
    lines = b"".join(response.streaming_content).decode().splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert events[-1]["type"] == "RUN_FINISHED"
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


@override_settings(ROOT_URLCONF="tests.agents.urls", DJANGO_PYDANTIC_AGENT=IMMEDIATE)
class ImmediateInTestCase(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        cls.user = User.objects.create(username="ada")

    def setUp(self) -> None:
        self.client.force_login(self.user)

    def test_tools_see_the_rows_of_the_test_and_the_test_sees_theirs(self):
        response = self.client.post("/agent/", BODY, content_type="application/json")
        assert text(response) == "Users: ada,by-tool"
        assert User.objects.filter(username="by-tool").exists()

    def test_the_run_is_listed_and_can_be_continued_within_the_test(self):
        text(self.client.post("/agent/", BODY, content_type="application/json"))
        (run,) = self.client.get("/agent/runs/").json()["runs"]
        assert (run["run_id"], run["status"], run["continuable"]) == ("r1", "finished", True)
        User.objects.filter(username="by-tool").delete()
        turn = {"id": "m2", "role": "user", "content": "again"}
        body = BODY | {"runId": "r2", "messages": [turn]}
        response = self.client.post(run["links"]["resume"], body, content_type="application/json")
        assert text(response) == "Users: ada,by-tool"

    def test_every_test_starts_without_the_rows_of_the_others(self):
        assert self.client.get("/agent/runs/").json()["runs"] == []
        assert not User.objects.filter(username="by-tool").exists()

    async def test_an_async_test_works_as_well(self):
        await self.async_client.aforce_login(self.user)
        response = await self.async_client.post("/agent/", BODY, content_type="application/json")
        chunks = [chunk async for chunk in response.streaming_content]
        assert "Users: ada,by-tool" in b"".join(chunks).decode()


@override_settings(ROOT_URLCONF="tests.agents.urls")
class LocalInTestCase(TestCase):
    def test_the_default_executor_says_what_to_do(self):
        self.client.force_login(User.objects.create(username="ada"))
        with pytest.raises(WrongTestCase, match=r"TransactionTestCase, or set .*ImmediateExecutor"):
            self.client.post("/agent/", BODY, content_type="application/json")


@override_settings(ROOT_URLCONF="tests.agents.urls")
class LocalInTransactionTestCase(TransactionTestCase):
    def test_the_default_executor_runs_in_the_background(self):
        self.client.force_login(User.objects.create(username="ada"))
        response = self.client.post("/agent/", BODY, content_type="application/json")
        assert text(response) == "Users: ada,by-tool"
