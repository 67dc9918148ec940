import asyncio
import contextvars
import threading
import weakref
from concurrent.futures import CancelledError

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.test import TestCase, TransactionTestCase
from pydantic_ai import Agent

from django_pydantic_agent.agents.tools import CallerThread, RunThread, ToolConnections, ToolThreads
from django_pydantic_agent.testing.models import Gate, ScriptedModel, ToolCall

language: contextvars.ContextVar[str] = contextvars.ContextVar("language", default="en")


@pytest.fixture
def threads():
    threads = ToolThreads(4)
    yield threads
    threads.shutdown()


def results(messages):
    return [" ".join(str(part.content) for part in messages[-1].parts)]


def open_connections() -> list[str]:
    """Return the aliases whose connection in this thread is open."""
    return [wrapper.alias for wrapper in connections.all(initialized_only=True) if wrapper.connection is not None]


class TestToolThreads:
    def test_a_call_returns_or_raises_in_its_future(self, threads):
        assert threads.submit(pow, 2, 5).result(5) == 32
        assert threads.submit(dict, a=1).result(5) == {"a": 1}
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 1, 0).result(5)

    def test_calls_run_beside_each_other_up_to_the_bound_and_the_rest_waits(self):
        threads = ToolThreads(3)
        meeting = threading.Barrier(4)
        busy = [threads.submit(meeting.wait, 10) for _ in range(3)]
        waiting = threads.submit(threading.current_thread)
        assert not waiting.done()
        assert not any(call.done() for call in busy)
        meeting.wait(10)
        assert sorted(call.result(10) for call in busy)[-1] <= 3
        assert waiting.result(10).name == "agent-tool"
        threads.shutdown()

    def test_a_free_thread_is_used_again(self, threads):
        used = set()
        for _ in range(20):
            used.add(threads.submit(threading.get_ident).result(5))
        assert len(used) <= 2

    def test_a_thread_with_nothing_to_do_ends_and_another_comes_when_it_is_needed(self):
        threads = ToolThreads(1, idle_seconds=0.01)
        first = threads.submit(threading.current_thread).result(5)
        first.join(5)
        assert not first.is_alive()
        assert threads.submit(threading.current_thread).result(5) is not first
        threads.shutdown()

    def test_a_tool_that_never_returns_does_not_keep_the_process(self, threads):
        assert threads.submit(threading.current_thread).result(5).daemon

    def test_shutdown_finishes_what_was_accepted_and_takes_nothing_more(self, threads):
        accepted = [threads.submit(abs, -number) for number in range(10)]
        threads.shutdown()
        assert [call.result(0) for call in accepted] == list(range(10))
        with pytest.raises(RuntimeError, match="no tool can start after shutdown"):
            threads.submit(abs, 1)

    def test_shutdown_can_drop_what_has_not_begun(self):
        threads, gate = ToolThreads(1), Gate()
        running = threads.submit(gate.arrive_blocking)
        gate.wait_reached()
        waiting = threads.submit(abs, -1)
        threads.shutdown(wait=False, cancel_futures=True)
        gate.open()
        assert running.result(5) is None
        with pytest.raises(CancelledError):
            waiting.result(5)

    def test_what_a_call_returned_or_raised_is_not_kept(self, threads):
        class LargeError(Exception):
            pass

        def fail():
            raise LargeError

        made = weakref.ref(threads.submit(LargeError).result(5))
        failed = weakref.ref(threads.submit(fail).exception(5))
        threads.submit(abs, 1).result(5)
        assert (made(), failed()) == (None, None)

    def test_there_must_be_a_thread(self):
        with pytest.raises(ValueError, match="at least 1"):
            ToolThreads(0)


def run_agent(agent: Agent, turns: list[list[ToolCall]], threads: ToolThreads, thread: RunThread | None = None) -> str:
    """Run the agent as the local executor does, and return what the tools of its last turn gave back."""

    async def main() -> str:
        with Agent.using_thread_executor(threads):
            async with thread or RunThread():
                return (await agent.run("go", model=model, capabilities=[capability])).output

    capability = ToolConnections(thread=thread)
    model = ScriptedModel([*turns, results])
    return asyncio.run(main())


@pytest.mark.django_db(transaction=True)
class TestConnections:
    def test_a_sync_tool_leaves_no_connection_open_in_its_thread(self, threads):
        agent = Agent()

        @agent.tool_plain
        def users() -> str:
            with transaction.atomic():
                User.objects.create(username="ada")
            return f"{User.objects.count()} {open_connections()}"

        assert run_agent(agent, [[ToolCall("users")]], threads) == "1 ['default']"
        idle = {threads.submit(open_connections).result(5) == [] for _ in range(8)}
        assert idle == {True}

    def test_a_failing_sync_tool_leaves_none_either(self, threads):
        def fail() -> None:
            User.objects.count()
            raise KeyError("oops")

        with pytest.raises(KeyError):
            threads.submit(fail).result(5)
        assert threads.submit(open_connections).result(5) == []

    def test_context_variables_reach_sync_tools(self, threads):
        agent = Agent()

        @agent.tool_plain
        def spoken() -> str:
            return language.get()

        token = language.set("de")
        try:
            assert run_agent(agent, [[ToolCall("spoken")]], threads) == "de"
        finally:
            language.reset(token)

    def test_async_tools_share_one_connection_that_is_closed_when_the_last_of_them_ends(self, threads):
        agent, gate = Agent(), Gate()
        seen: list[tuple[int, list[str]]] = []

        def look() -> None:
            User.objects.count()
            seen.append((threading.get_ident(), open_connections()))

        @agent.tool_plain
        async def slow() -> str:
            await sync_to_async(look)()
            await gate.arrive()
            await sync_to_async(lambda: seen.append((threading.get_ident(), open_connections())))()
            return "slow"

        @agent.tool_plain
        async def quick() -> str:
            await sync_to_async(look)()
            gate.open()
            return "quick"

        @agent.tool_plain
        async def peek() -> str:
            return str(await sync_to_async(open_connections)())

        turns = [[ToolCall("slow"), ToolCall("quick")], [ToolCall("peek")]]
        assert run_agent(agent, turns, threads, RunThread()) == "[]"
        assert len({ident for ident, _ in seen}) == 1
        assert [aliases for _, aliases in seen] == [["default"]] * 3

    @pytest.mark.postgres
    def test_tools_work_again_right_after_the_database_dropped_every_connection(self, threads):
        agent = Agent()

        def drop_others() -> None:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            connection.close()

        @agent.tool_plain
        def count() -> int:
            return User.objects.count()

        @agent.tool_plain
        async def acount() -> int:
            return await User.objects.acount()

        @agent.tool_plain
        async def restart() -> str:
            await asyncio.to_thread(drop_others)
            return "restarted"

        connection.close()
        both = [ToolCall("count"), ToolCall("acount")]
        assert run_agent(agent, [both, [ToolCall("restart")], both], threads, RunThread()) == "0 0"

    def test_leaving_the_run_thread_closes_its_connection_and_ends_the_thread(self):
        async def main() -> threading.Thread:
            thread = RunThread()
            async with thread:
                await thread.release()
                await User.objects.acount()
                worker = await sync_to_async(threading.current_thread)()
                wrapper = await sync_to_async(lambda: connections["default"])()
                opened.append(wrapper.connection is not None)
            opened.append(wrapper.connection is not None)
            return worker

        opened: list[bool] = []
        worker = asyncio.run(main())
        worker.join(5)
        assert (opened, worker.is_alive()) == ([True, in_memory()], False)


def in_memory() -> bool:
    return connection.vendor == "sqlite" and connection.is_in_memory_db()


async def count_users() -> int:
    return await User.objects.acount()


def run_in_caller(turns: list[list[ToolCall]]) -> str:
    """Run `make_agent()` as the immediate executor does."""

    async def main() -> str:
        with Agent.using_thread_executor(CallerThread()):
            return (await make_agent().run("go", model=model)).output

    model = ScriptedModel([*turns, results])
    return async_to_sync(main)()


def make_agent() -> Agent:
    agent = Agent()

    @agent.tool_plain
    def names() -> str:
        threads_used.append(threading.get_ident())
        User.objects.create(username=f"made-{User.objects.count()}")
        return ",".join(User.objects.order_by("pk").values_list("username", flat=True))

    @agent.tool_plain
    async def anames() -> str:
        return ",".join([user.username async for user in User.objects.order_by("pk")])

    @agent.tool_plain
    def bridged() -> int:
        return async_to_sync(count_users)()

    return agent


threads_used: list[int] = []


class CallerThreadInTestCase(TestCase):
    """The tools of a run that a TestCase starts work inside its transaction."""

    def test_sync_and_async_tools_see_and_write_the_rows_of_the_test(self):
        User.objects.create(username="mine")
        threads_used.clear()
        both = [ToolCall("names"), ToolCall("names")]
        assert run_in_caller([both, [ToolCall("anames"), ToolCall("bridged")]]) == "mine,made-1,made-2 3"
        assert set(threads_used) == {threading.get_ident()}
        assert connection.in_atomic_block
        assert User.objects.count() == 3

    async def test_an_async_test_starts_a_run_in_a_sync_view(self):
        await User.objects.acreate(username="mine")
        turns = [[ToolCall("names")], [ToolCall("anames"), ToolCall("bridged")]]
        assert await sync_to_async(run_in_caller)(turns) == "mine,made-1 2"


class CallerThreadOutsideATransaction(TransactionTestCase):
    def test_the_callers_connection_stays_as_it_was(self):
        User.objects.count()
        before = connection.connection
        assert run_in_caller([[ToolCall("names")]]) == "made-0"
        assert connection.connection is before
