"""Whose a run is: equal ids of two owners, equal call ids of two runs, sessions before and after a login."""

import asyncio
import http.client
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session

from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import Run
from tests.live.gates import Gatekeeper
from tests.live.scripts import RECITE, call, fail, gate, script
from tests.live.visitors import Visitor, check_complete, fresh, read_run, run_input, text_of, types_of
from tests.servers import Server, each
from tests.sse import request


def test_two_owners_with_one_run_id_never_meet(uvicorn: Server, daphne: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, held = fresh("run"), fresh("held")
    other = Visitor.new()
    with (
        visitor.post(uvicorn, run_id, script(["mine ", gate(held), "too"])) as first,
        other.post(daphne, run_id, script(["yours ", gate(held), "too"])) as second,
    ):
        mine, yours = first.until("TEXT_MESSAGE_CONTENT"), second.until("TEXT_MESSAGE_CONTENT")
        gates.open(held)
        mine += first.frames()
        yours += second.frames()
    check_complete(visitor, run_id, mine)
    check_complete(other, run_id, yours)
    assert (text_of(mine), text_of(yours)) == ("mine too", "yours too")
    for one, server in ((visitor, daphne), (other, uvicorn)):
        (listed,) = one.get(server, "agent/runs/")[1]["runs"]
        assert listed["run_id"] == run_id
        resumed = one.run(server, fresh("run"), script([RECITE]), route=f"agent/resume/{run_id}/")
        assert ("mine" in text_of(resumed), "yours" in text_of(resumed)) == (one is visitor, one is other)


def effects(visitor: Visitor, run_id: str) -> tuple[str | None, list[str]]:
    """Return the status of `call_1` and the unresolved calls of a run, as the step store tells them."""

    async def look() -> tuple[str | None, list[str]]:
        store = DefaultStepStore(SimpleNamespace(user=visitor.user))
        effect = await store.get_tool_effect(run_id=run_id, tool_call_id="call_1")
        unresolved = await store.list_unresolved_tool_effects(run_id=run_id)
        return effect and effect.status, [one.tool_call_id for one in unresolved]

    return asyncio.run(look())


def test_C16_each_run_has_its_own_record_of_a_call_id(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    completes, fails, held = fresh("run"), fresh("run"), fresh("held")
    other = Visitor.new()
    visitor.run(uvicorn, completes, script([call("quick", call_id="call_1", word="a")], ["done"]), thread_id="t1")
    visitor.run(uvicorn, fails, script([call("boom", call_id="call_1", text="no")]), thread_id="t2")
    with other.post(uvicorn, completes, script([call("hold", call_id="call_1", gate=held)], ["done"])) as response:
        response.until("TOOL_CALL_END")
        gates.wait_reached(held)
        assert effects(visitor, completes) == ("completed", [])
        assert effects(visitor, fails) == ("failed", [])
        assert effects(other, completes) == ("started", ["call_1"])
        assert effects(other, fails) == (None, [])
        assert visitor.get(uvicorn, f"agent/runs/{completes}/")[1]["unresolved_effects"] == 0
        assert other.get(uvicorn, f"agent/runs/{completes}/")[1]["unresolved_effects"] == 1
        gates.open(held)
        response.until("RUN_FINISHED")
    assert effects(other, completes) == ("completed", [])


class Browser:
    """A browser with cookies, of nobody until it logs in."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cookies = {settings.CSRF_COOKIE_NAME: "c" * 32}

    @property
    def headers(self) -> dict[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": cookies, "X-CSRFToken": self.cookies[settings.CSRF_COOKIE_NAME]}

    def run(self, run_id: str, prompt: str, *, route: str = "public/") -> list[Any]:
        body = run_input(run_id, prompt)
        with request("POST", f"{self.server.url}/{route}", headers=self.headers, json_body=body) as response:
            frames = read_run(response)
            self._take(response.headers.get("set-cookie", ""))
        return frames

    def runs(self) -> list[str]:
        with request("GET", f"{self.server.url}/public/runs/", headers=self.headers) as response:
            self._take(response.headers.get("set-cookie", ""))
            return [run["run_id"] for run in response.json()["runs"]]

    def send_form(self, page: str, **fields: str) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.server.url).netloc, timeout=20)
        try:
            headers = self.headers | {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", f"/{page}/", urlencode(fields), headers)
            response = connection.getresponse()
            assert response.status == 302, response.read()
            for value in response.headers.get_all("Set-Cookie", []):
                self._take(value)
        finally:
            connection.close()

    def log_in(self, user: User) -> None:
        self.send_form("login", username=user.username, password="secret")

    def _take(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        if name:
            self.cookies[name] = rest.partition(";")[0]


def test_C24_what_a_visitor_began_is_the_user_s_after_the_login_and_nobody_else_s(
    uvicorn: Server, visitor: Visitor, gates: Gatekeeper
):
    begun, clashing, later = fresh("run"), fresh("run"), fresh("run")
    user, second = visitor.user, Visitor.new().user
    assert user is not None
    assert second is not None
    visitor.run(uvicorn, clashing, script(["the user's"]), route="public/")
    browser = Browser(uvicorn)
    browser.run(begun, script([call("boom", text="no")]))
    browser.run(clashing, script(["the visitor's"]))
    assert set(browser.runs()) == {begun, clashing}
    visitor_key = browser.cookies[settings.SESSION_COOKIE_NAME]
    browser.log_in(user)
    assert browser.cookies[settings.SESSION_COOKIE_NAME] != visitor_key
    assert sorted(browser.runs()) == sorted([begun, clashing])
    resumed = browser.run(later, script([RECITE]), route=f"public/resume/{clashing}/")
    assert "the user's" in text_of(resumed)
    assert Run.objects.filter(owner=visitor.owner.key).count() == 3
    browser.send_form("logout")
    assert browser.runs() == []
    browser.log_in(second)
    assert browser.runs() == []
    with request(
        "POST",
        f"{uvicorn.url}/public/resume/{begun}/",
        headers=browser.headers,
        json_body=run_input(fresh("run"), script(["stolen"])),
    ) as response:
        assert response.status == 404


def test_C24_a_visitor_s_runs_hang_on_the_session_whose_key_is_stored_nowhere(uvicorn: Server):
    browser, other, run_id = Browser(uvicorn), Browser(uvicorn), fresh("run")
    browser.run(run_id, script(["one"]))
    other.run(run_id, script(["two"]))
    assert (browser.runs(), other.runs()) == ([run_id], [run_id])
    key = browser.cookies[settings.SESSION_COOKIE_NAME]
    owners = Run.objects.filter(run_id=run_id).values_list("owner", flat=True)
    assert len(set(owners)) == 2
    assert not any(key in owner for owner in owners)
    Session.objects.filter(session_key=key).delete()
    assert (browser.runs(), other.runs()) == ([], [run_id])


@pytest.mark.parametrize("route", ["agent/", "hooked/"])
@pytest.mark.parametrize("kind", each(["uvicorn", "daphne"]))
def test_C32_hooks_tools_and_errors_read_the_user_of_a_real_login(
    request: pytest.FixtureRequest, visitor: Visitor, kind: str, route: str
):
    server: Server = request.getfixturevalue(kind)
    assert visitor.user is not None
    visitor.user.groups.add(Group.objects.create(name=fresh("group")))
    turns = script([call("write", text=fresh("note")), call("who_is_loaded")], [call("who")], [RECITE])
    frames = visitor.run(server, fresh("run"), turns, route=route)
    assert f"{visitor.user.username}, live@example.com" in text_of(frames)
    assert f"{visitor.user.username} wrote 1 and has 1 groups" in text_of(frames)
    failed = visitor.run(server, fresh("run"), script([call("who")], [fail("no")]), route=route)
    assert types_of(failed)[-1] == "RUN_ERROR"
    anonymous = Visitor(user=None)
    assert anonymous.answer(server, run_input(fresh("run"), script(["no"])), route=route)[0] == 403
    assert "SynchronousOnlyOperation" not in server.log()


@pytest.mark.parametrize("kind", each(["uvicorn", "daphne"]))
def test_C32_an_async_authorize_that_says_no_is_heard(request: pytest.FixtureRequest, visitor: Visitor, kind: str):
    server: Server = request.getfixturevalue(kind)
    assert visitor.user is not None
    visitor.user.groups.add(Group.objects.get_or_create(name="blocked")[0])
    status, refusal = visitor.answer(server, run_input(fresh("run"), script(["no"])), route="hooked/")
    assert (status, refusal["code"]) == (403, "permission_denied")
    assert Run.objects.filter(owner=visitor.owner.key).count() == 0


def test_C32_a_user_who_is_deleted_during_the_run_breaks_nothing(uvicorn: Server, visitor: Visitor, gates: Gatekeeper):
    run_id, held = fresh("run"), fresh("held")
    assert visitor.user is not None
    with visitor.post(
        uvicorn, run_id, script([call("hold", gate=held)], [call("who_is_loaded")], ["done"])
    ) as response:
        frames = response.until("TOOL_CALL_END")
        gates.wait_reached(held)
        User.objects.filter(pk=visitor.user.pk).delete()
        gates.open(held)
        frames += response.frames()
    assert types_of(frames)[-1] in ("RUN_FINISHED", "RUN_ERROR")
    assert "SynchronousOnlyOperation" not in uvicorn.log()
