import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session

from tests.bare import run_input
from tests.servers import KINDS, ON_EVERY_DATABASE, ServerFailed, accepts, serve, session_headers
from tests.sse import StreamCut, request


def show_admin(url: str, headers: dict[str, str]) -> int:
    with request("GET", f"{url}/admin/", headers=headers) as response:
        return response.status


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_of_each_kind_reads_what_the_test_committed_and_leaves_nothing_behind(kind, live_database):
    assert not User.objects.exists()
    headers = session_headers(User.objects.create_superuser("ada"))
    with serve(kind, env=live_database.env) as server:
        assert show_admin(server.url, headers) == 200
        assert show_admin(server.url, {}) == 302
        assert server.members()
    assert not accepts(server.port)
    assert server.process.returncode is not None
    assert server.members() == []


@pytest.mark.parametrize("kind", ON_EVERY_DATABASE)
def test_a_killed_server_can_be_started_again_on_its_port_and_ended_in_order(kind, live_database):
    with serve(kind, env=live_database.env) as first:
        first.kill()
        assert not accepts(first.port)
        with serve(kind, env=live_database.env, port=first.port) as second:
            assert show_admin(second.url, {}) == 302
            second.terminate()
            assert second.process.returncode is not None


def test_what_a_server_commits_is_seen_by_the_test(live_database):
    User.objects.create_superuser("ada", password="secret")
    with serve("uvicorn", env=live_database.env) as server:
        headers = {
            "Cookie": "csrftoken=" + "a" * 32,
            "X-CSRFToken": "a" * 32,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        login = f"{server.url}/admin/login/"
        with request("POST", login, headers=headers, body=b"username=ada&password=secret") as response:
            assert response.status == 302
    assert Session.objects.count() == 1


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(ServerFailed, match="nowhere"), serve("uvicorn", application="tests.nowhere:application"):
        pass


def test_a_taken_port_is_refused():
    with serve("uvicorn", application="tests.bare:application") as first:
        with pytest.raises(ServerFailed, match="taken"), serve("uvicorn", port=first.port):
            pass
        assert first.process.poll() is None


def test_the_log_is_printed_when_the_test_fails(capsys):
    with pytest.raises(ZeroDivisionError), serve("uvicorn", application="tests.bare:application") as server:
        raise ZeroDivisionError
    assert f"running on {server.url}" in capsys.readouterr().err


def test_a_kill_cuts_an_open_stream():
    with (
        serve("uvicorn", application="tests.bare:application") as server,
        request("POST", f"{server.url}/", json_body=run_input("wait")) as response,
    ):
        response.until("TEXT_MESSAGE_CONTENT")
        server.kill()
        with pytest.raises(StreamCut):
            response.until("TEXT_MESSAGE_END")
