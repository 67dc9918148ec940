"""What a step store has to do, as tests for any of them.

Inherit `StepStoreConformance`, or `DurableStepStoreConformance` for a store that keeps rows outside the process, next
to a test case whose `async` methods are awaited, and say how a store is made:

    class TestMyStepStore(StepStoreConformance, IsolatedAsyncioTestCase):
        def make_store(self, *, max_snapshots=None):
            return MyStepStore(max_snapshots_per_run=max_snapshots)
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    annotate_tool_effect,
    continue_run,
)

NOON = datetime(2026, 3, 8, 12, 0, 0, 123456, tzinfo=UTC)

AWKWARD_IDS = (
    "run",
    "Run",
    "RUN",
    "run ",
    "rün",
    "run\N{COMBINING DIAERESIS}",
    "\N{GRINNING FACE}",
    "a/b:c",
    "x" * 1000,
)
"""Ids that a database might take for each other, or have no room for."""


def prompt(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOON)])


def answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], timestamp=NOON)


def snapshot(run_id: str, *messages: ModelMessage, step: int = 0, **fields: Any) -> ContinuableSnapshot:
    return ContinuableSnapshot(run_id=run_id, step_index=step, messages=list(messages), timestamp=NOON, **fields)


def event(run_id: str, *, step: int = 0, key: str | None = None, **fields: Any) -> StepEvent:
    fields = {"kind": "model_request_started", "timestamp": NOON, **fields}
    return StepEvent(run_id=run_id, step_index=step, idempotency_key=key, **fields)


def effect(run_id: str, call: str, status: Any = "started", **fields: Any) -> ToolEffectRecord:
    return ToolEffectRecord(
        run_id=run_id, tool_call_id=call, tool_name="send", status=status, started_at=NOON, **fields
    )


class StepStoreConformance:
    """Every promise of the harness's `StepStore` that StepPersistence and its users rely on."""

    def make_store(self, *, max_snapshots: int | None = None) -> Any:
        """Return a store of the test's rows, which keeps `max_snapshots` for each run."""
        raise NotImplementedError

    async def test_it_has_the_methods_of_a_step_store_and_list_snapshots(self) -> None:
        store = self.make_store()
        assert callable(store.list_snapshots)
        assert isinstance(store, StepStore)

    async def test_an_unknown_run_has_nothing(self) -> None:
        store = self.make_store()
        assert await store.get_run(run_id="run") is None
        assert await store.list_runs() == []
        assert await store.list_events(run_id="run") == []
        assert await store.latest_snapshot(run_id="run", include_interrupted=True) is None
        assert await store.list_snapshots(run_id="run", include_interrupted=True) == []
        assert await store.get_tool_effect(run_id="run", tool_call_id="call") is None
        assert await store.list_unresolved_tool_effects(run_id="run") == []

    async def test_each_field_of_a_run_comes_back(self) -> None:
        store = self.make_store()
        full = RunRecord(
            run_id="run",
            conversation_id="conversation",
            parent_run_id="parent",
            agent_name="agent",
            metadata={"key": "value", "": "\N{GRINNING FACE}"},
            started_at=NOON,
            registration_id="registration",
        )
        bare = RunRecord(run_id="bare", started_at=NOON)
        empty = RunRecord(run_id="empty", conversation_id="", agent_name="", started_at=NOON, registration_id="")
        for record in (full, bare, empty):
            await store.register_run(record)
            assert await store.get_run(run_id=record.run_id) == record

    async def test_a_run_is_unknown_until_it_is_registered(self) -> None:
        store = self.make_store()
        await store.append_event(event("run"))
        assert await store.get_run(run_id="run") is None
        assert await store.list_runs() == []
        await store.register_run(RunRecord(run_id="run", registration_id="registration"))
        assert (await store.get_run(run_id="run")).registration_id == "registration"
        assert len(await store.list_events(run_id="run")) == 1

    async def test_the_same_registration_may_come_again(self) -> None:
        store = self.make_store()
        record = RunRecord(run_id="run", started_at=NOON, registration_id="registration")
        await store.register_run(record)
        await store.register_run(record)
        assert await store.list_runs() == [record]

    async def test_runs_are_listed_by_the_instant_at_which_they_started(self) -> None:
        await self._lists_by_instant(timezone(timedelta(hours=-4)), timezone(timedelta(hours=-5)))

    async def test_filters_of_list_runs_combine(self) -> None:
        store = self.make_store()
        for index, (parent, conversation) in enumerate([("p", "c"), ("p", "C"), ("P", "c"), (None, None)]):
            await store.register_run(
                RunRecord(
                    run_id=str(index),
                    parent_run_id=parent,
                    conversation_id=conversation,
                    started_at=NOON + timedelta(seconds=index),
                )
            )

        async def listed(**filters: str) -> list[str]:
            return [record.run_id for record in await store.list_runs(**filters)]

        assert await listed() == ["0", "1", "2", "3"]
        assert await listed(parent_run_id="p") == ["0", "1"]
        assert await listed(conversation_id="c") == ["0", "2"]
        assert await listed(parent_run_id="p", conversation_id="c") == ["0"]
        assert await listed(parent_run_id="other") == []

    async def test_ids_are_compared_exactly(self) -> None:
        store = self.make_store()
        for run_id in AWKWARD_IDS:
            await store.register_run(RunRecord(run_id=run_id, started_at=NOON))
            await store.append_event(event(run_id, error=run_id))
            await store.save_snapshot(snapshot(run_id, prompt(run_id)))
            await store.record_tool_effect(effect(run_id, "call", effect_summary=run_id))
            await store.record_tool_effect(effect("calls", run_id, effect_summary=run_id))
        for run_id in AWKWARD_IDS:
            assert (await store.get_run(run_id=run_id)).run_id == run_id
            assert [row.error for row in await store.list_events(run_id=run_id)] == [run_id]
            assert (await store.latest_snapshot(run_id=run_id)).messages == [prompt(run_id)]
            for key in ({"run_id": run_id, "tool_call_id": "call"}, {"run_id": "calls", "tool_call_id": run_id}):
                assert (await store.get_tool_effect(**key)).effect_summary == run_id

    async def test_each_field_of_an_event_comes_back(self) -> None:
        store = self.make_store()
        full = StepEvent(
            run_id="run",
            kind="tool_call_failed",
            step_index=3,
            timestamp=NOON,
            conversation_id="conversation",
            parent_run_id="parent",
            agent_name="agent",
            tool_call_id="call",
            tool_name="tool",
            error="ValueError('no')",
            metadata={"key": "value"},
            idempotency_key="key",
        )
        bare = StepEvent(run_id="run", kind="run_started", step_index=0, timestamp=NOON)
        empty = event("run", conversation_id="", agent_name="", tool_call_id="", error="")
        for record in (full, bare, empty):
            await store.append_event(record)
        assert await store.list_events(run_id="run") == [full, bare, empty]

    async def test_events_keep_the_order_of_writing(self) -> None:
        store = self.make_store()
        steps = [0, 1, 2, 0, 5, 1]
        for index, step in enumerate(steps):
            timestamp = NOON - timedelta(seconds=index % 2)
            await store.append_event(event("run", step=step, timestamp=timestamp, error=str(index)))
            await store.append_event(event("other", step=step))
        events = await store.list_events(run_id="run")
        assert [row.step_index for row in events] == steps
        assert [row.error for row in events] == ["0", "1", "2", "3", "4", "5"]

    async def test_a_repeated_event_is_dropped_within_its_run(self) -> None:
        store = self.make_store()
        for run_id, key in [("run", "a"), ("run", "a"), ("run", "A"), ("other", "a"), ("run", "b"), ("run", "a")]:
            await store.append_event(event(run_id, key=key))
        assert [row.idempotency_key for row in await store.list_events(run_id="run")] == ["a", "A", "b"]
        assert len(await store.list_events(run_id="other")) == 1

    async def test_an_event_without_a_key_is_always_appended(self) -> None:
        store = self.make_store()
        for _ in range(2):
            await store.append_event(event("run"))
        assert len(await store.list_events(run_id="run")) == 2

    async def test_C14_no_event_of_parallel_tools_is_lost(self) -> None:
        store = self.make_store()
        await store.register_run(RunRecord(run_id="run"))

        async def tool(number: int) -> None:
            for part in range(3):
                await store.append_event(event("run", step=part, tool_call_id=str(number), key=f"{number}:{part}"))

        await asyncio.gather(*map(tool, range(20)))
        events = await store.list_events(run_id="run")
        assert len(events) == 60
        for number in range(20):
            assert [row.step_index for row in events if row.tool_call_id == str(number)] == [0, 1, 2]

    async def test_each_field_of_a_snapshot_comes_back(self) -> None:
        store = self.make_store()
        messages: list[ModelMessage] = [
            ModelRequest(
                parts=[
                    UserPromptPart(["look", BinaryContent(b"\0\xff", media_type="application/pdf")], timestamp=NOON)
                ],
                instructions="be brief\nand exact",
                run_id="run",
                metadata={"key": [1, None, 2**70]},
            ),
            ModelResponse(
                parts=[ThinkingPart("hm", signature="s"), ToolCallPart("look_up", {"n": 2**60}, tool_call_id="call")],
                model_name="model",
                provider_response_id="response",
                finish_reason="tool_call",
                timestamp=NOON,
            ),
            ModelRequest(parts=[ToolReturnPart("look_up", {"a": [1.5, "ü,\n"]}, tool_call_id="call", timestamp=NOON)]),
            answer("done,\n{}"),
        ]
        full = snapshot(
            "run",
            *messages,
            step=7,
            conversation_id="conversation",
            parent_run_id="parent",
            agent_name="agent",
            state="interrupted",
            idempotency_key="key",
        )
        bare = snapshot("run")
        await store.save_snapshot(full)
        assert await store.latest_snapshot(run_id="run", include_interrupted=True) == full
        await store.save_snapshot(bare)
        assert await store.latest_snapshot(run_id="run") == bare
        assert await store.list_snapshots(run_id="run", include_interrupted=True) == [full, bare]

    async def test_the_newest_snapshot_is_the_one_written_last(self) -> None:
        store = self.make_store()
        for step, state in [(5, "complete"), (1, "complete"), (0, "interrupted")]:
            await store.save_snapshot(snapshot("run", prompt(str(step)), step=step, state=state))
        assert (await store.latest_snapshot(run_id="run")).step_index == 1
        assert (await store.latest_snapshot(run_id="run", include_interrupted=True)).step_index == 0
        assert [row.step_index for row in await store.list_snapshots(run_id="run")] == [5, 1]
        everything = await store.list_snapshots(run_id="run", include_interrupted=True)
        assert [row.step_index for row in everything] == [5, 1, 0]

    async def test_a_run_with_interrupted_snapshots_only_cannot_be_continued(self) -> None:
        store = self.make_store()
        await store.save_snapshot(snapshot("run", prompt("hi"), state="interrupted"))
        assert await store.latest_snapshot(run_id="run") is None
        assert await store.list_snapshots(run_id="run") == []

    async def test_each_snapshot_keeps_the_history_it_was_saved_with(self) -> None:
        store = self.make_store()
        first: list[ModelMessage] = [prompt("one"), answer("two"), prompt("three")]
        stamped = replace(prompt("three"), run_id="run", metadata={"stamped": "later"})
        histories: list[list[ModelMessage]] = [
            first[:1],
            first[:2],
            first,
            [*first[:2], stamped],
            [*first[:2], stamped, answer("four")],
            [*first[:2], stamped, answer("four")],
            first[:2],
            [prompt("summary"), answer("four")],
            [prompt("summary"), answer("fours")],
            [],
            [*first, answer("\N{GRINNING FACE}" * 3)],
            [*first, answer("\N{GRINNING CAT FACE WITH SMILING EYES}" * 3)],
        ]
        for step, history in enumerate(histories):
            await store.save_snapshot(snapshot("run", *history, step=step))
            assert (await store.latest_snapshot(run_id="run")).messages == history
        snapshots = await store.list_snapshots(run_id="run")
        assert [row.messages for row in snapshots] == histories

    async def test_a_repeated_snapshot_is_dropped_within_its_run(self) -> None:
        store = self.make_store()
        for run_id, key in [("run", "0:a"), ("run", "0:a"), ("run", "0:A"), ("other", "0:a"), ("run", "1:a")]:
            await store.save_snapshot(snapshot(run_id, prompt(key), idempotency_key=key))
        snapshots = await store.list_snapshots(run_id="run")
        assert [row.idempotency_key for row in snapshots] == ["0:a", "0:A", "1:a"]
        assert len(await store.list_snapshots(run_id="other")) == 1

    async def test_a_snapshot_without_a_key_is_always_appended(self) -> None:
        store = self.make_store()
        for _ in range(2):
            await store.save_snapshot(snapshot("run", prompt("hi")))
        assert len(await store.list_snapshots(run_id="run")) == 2

    async def test_the_newest_snapshots_and_the_newest_complete_one_are_kept(self) -> None:
        store = self.make_store(max_snapshots=2)
        for index, state in enumerate(["complete", "complete", "interrupted", "interrupted", "interrupted"]):
            await store.save_snapshot(snapshot("run", prompt("hi"), step=index, state=state))
        kept = await store.list_snapshots(run_id="run", include_interrupted=True)
        assert [row.step_index for row in kept] == [1, 3, 4]
        assert (await store.latest_snapshot(run_id="run")).messages == [prompt("hi")]

    async def test_idempotency_keys_outlive_their_snapshots(self) -> None:
        store = self.make_store(max_snapshots=1)
        for index in range(3):
            await store.save_snapshot(snapshot("run", prompt("hi"), step=index, idempotency_key=f"{index}:key"))
        await store.save_snapshot(snapshot("run", prompt("late"), step=9, idempotency_key="0:key"))
        kept = await store.list_snapshots(run_id="run", include_interrupted=True)
        assert [row.step_index for row in kept] == [2]

    async def test_each_field_of_an_effect_comes_back(self) -> None:
        store = self.make_store()
        full = ToolEffectRecord(
            tool_call_id="call",
            tool_name="send",
            run_id="run",
            status="failed",
            started_at=NOON,
            ended_at=NOON + timedelta(microseconds=1),
            idempotency_key="key",
            effect_summary="nothing was sent",
        )
        bare = effect("run", "bare")
        empty = effect("run", "empty", idempotency_key="", effect_summary="")
        for record in (full, bare, empty):
            await store.record_tool_effect(record)
            assert await store.get_tool_effect(run_id="run", tool_call_id=record.tool_call_id) == record

    async def test_an_effect_replaces_the_one_before(self) -> None:
        store = self.make_store()
        await store.record_tool_effect(effect("run", "call", idempotency_key="key"))
        done = effect("run", "call", "completed", ended_at=NOON)
        await store.record_tool_effect(done)
        assert await store.get_tool_effect(run_id="run", tool_call_id="call") == done
        assert await store.list_unresolved_tool_effects(run_id="run") == []

    async def test_unresolved_effects_are_those_that_only_started(self) -> None:
        store = self.make_store()
        for call, status in [("a", "started"), ("b", "completed"), ("c", "failed"), ("d", "started")]:
            await store.record_tool_effect(effect("run", call, status))
        unresolved = await store.list_unresolved_tool_effects(run_id="run")
        assert [row.tool_call_id for row in unresolved] == ["a", "d"]

    async def test_C16_one_call_id_in_several_runs_is_several_effects(self) -> None:
        store = self.make_store()
        for run_id, status in [("first", "completed"), ("second", "failed"), ("third", "started")]:
            await store.record_tool_effect(effect(run_id, "call_1", status))
        for run_id, status in [("first", "completed"), ("second", "failed"), ("third", "started")]:
            record = await store.get_tool_effect(run_id=run_id, tool_call_id="call_1")
            assert (record.run_id, record.status) == (run_id, status)
            unresolved = await store.list_unresolved_tool_effects(run_id=run_id)
            assert [row.run_id for row in unresolved] == (["third"] if run_id == "third" else [])

    async def test_an_agent_run_is_recorded_whole(self) -> None:
        store = self.make_store()
        persistence: StepPersistence[Any] = StepPersistence(
            store=store, run_id="run", metadata={"key": "value"}, capture_frontier=True
        )
        result = await _agent().run("hello", deps=store, conversation_id="conversation", capabilities=[persistence])
        record = await store.get_run(run_id="run")
        assert (record.conversation_id, record.metadata) == ("conversation", {"key": "value"})
        assert [row.kind for row in await store.list_events(run_id="run")] == [
            "run_started",
            *["model_request_started", "model_request_completed", "tool_call_started", "tool_call_completed"] * 2,
            "model_request_started",
            "model_request_completed",
            "run_completed",
        ]
        assert await continue_run(store, run_id="run") == result.all_messages()
        done = await store.get_tool_effect(run_id="run", tool_call_id="call_0")
        assert (done.status, done.idempotency_key, done.effect_summary) == ("completed", "key", "doubled 0")
        assert done.started_at <= done.ended_at
        assert await store.list_unresolved_tool_effects(run_id="run") == []

    async def test_a_failed_agent_run_is_continued_from_its_last_boundary(self) -> None:
        store = self.make_store()
        persistence: StepPersistence[Any] = StepPersistence(store=store, run_id="run", capture_frontier=True)
        run = _agent(fail_at=1).run("hello", deps=store, capabilities=[persistence])
        error: Any = (await asyncio.gather(run, return_exceptions=True))[0]
        assert isinstance(error, ConnectionError)
        kinds = [row.kind for row in await store.list_events(run_id="run")]
        assert kinds[-2:] == ["model_request_failed", "run_failed"]
        history = await continue_run(store, run_id="run")
        persistence = StepPersistence(store=store, run_id="next", parent_run_id="run", capture_frontier=True)
        result = await _agent().run(message_history=history, deps=store, capabilities=[persistence])
        assert result.output == "done"
        assert (await store.latest_snapshot(run_id="next")).messages == result.all_messages()
        assert [record.run_id for record in await store.list_runs(parent_run_id="run")] == ["next"]
        assert await continue_run(store, run_id="run") == history

    async def test_a_failed_tool_leaves_a_failed_effect(self) -> None:
        store = self.make_store()
        persistence: StepPersistence[Any] = StepPersistence(store=store, run_id="run")
        run = _agent(tool_error=OSError("no disk")).run("hello", deps=store, capabilities=[persistence])
        error: Any = (await asyncio.gather(run, return_exceptions=True))[0]
        assert isinstance(error, OSError)
        record = await store.get_tool_effect(run_id="run", tool_call_id="call_0")
        assert (record.status, record.effect_summary) == ("failed", "OSError('no disk')")

    async def test_a_run_that_waits_for_approval_leaves_its_frontier(self) -> None:
        store = self.make_store()
        persistence: StepPersistence[Any] = StepPersistence(store=store, run_id="run", capture_frontier=True)
        agent = _agent(output_type=[str, DeferredToolRequests], requires_approval=True)
        await agent.run("hello", deps=store, capabilities=[persistence])
        newest = await store.latest_snapshot(run_id="run", include_interrupted=True)
        assert newest.state == "interrupted"
        assert isinstance(newest.messages[-1], ModelResponse)

    async def test_a_delegate_is_a_run_of_its_own(self) -> None:
        store = self.make_store()

        async def ask(text: str) -> str:
            persistence: StepPersistence[Any] = StepPersistence(store=store, run_id="delegate")
            return str((await _agent().run(text, deps=store, capabilities=[persistence])).output)

        agent = Agent(FunctionModel(lambda messages, info: _call_once(messages, "ask", {"text": "hi"})), tools=[ask])
        await agent.run("hello", capabilities=[StepPersistence(store=store, run_id="run")])
        (child,) = await store.list_runs(parent_run_id="run")
        assert child.run_id == "delegate"
        assert (await store.get_tool_effect(run_id="delegate", tool_call_id="call_0")).status == "completed"
        assert (await store.get_tool_effect(run_id="run", tool_call_id="call_0")).tool_name == "ask"

    async def _lists_by_instant(self, summer: tzinfo, winter: tzinfo) -> None:
        """Register three runs, of which two started at the same time by the clock on the wall."""
        store = self.make_store()
        first = datetime(2026, 11, 1, 1, 30, fold=0, tzinfo=summer)
        second = datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=winter)
        third = (second + timedelta(hours=2)).astimezone(timezone(timedelta(hours=14)))
        for run_id, started_at in (("second", second), ("third", third), ("first", first)):
            await store.register_run(RunRecord(run_id=run_id, started_at=started_at))
        records = await store.list_runs()
        assert [record.run_id for record in records] == ["first", "second", "third"]
        instants = [record.started_at.timestamp() for record in records]
        assert instants == [first.timestamp(), second.timestamp(), third.timestamp()]
        assert all(record.started_at.utcoffset() is not None for record in records)


class DurableStepStoreConformance(StepStoreConformance):
    """What a store that outlives the process has to do beyond that."""

    async def test_C35_the_hour_that_occurs_twice_is_two_hours(self) -> None:
        await self._lists_by_instant(ZoneInfo("America/New_York"), ZoneInfo("America/New_York"))

    async def test_another_registration_of_a_run_id_is_refused(self) -> None:
        store = self.make_store()
        first = RunRecord(run_id="run", started_at=NOON, registration_id="first")
        await store.register_run(first)
        for registration_id in ("second", None):
            registration = store.register_run(replace(first, registration_id=registration_id))
            refusal: Any = (await asyncio.gather(registration, return_exceptions=True))[0]
            assert isinstance(refusal, ValueError)
            assert "'run'" in str(refusal)
        assert await store.get_run(run_id="run") == first

    async def test_of_simultaneous_registrations_one_wins(self) -> None:
        records = [RunRecord(run_id="run", started_at=NOON, registration_id=str(number)) for number in range(8)]
        results = await asyncio.gather(
            *(self.make_store().register_run(record) for record in records), return_exceptions=True
        )
        assert sorted(map(type, results), key=str) == sorted([type(None), *[ValueError] * 7], key=str)
        winner = records[results.index(None)]
        assert await self.make_store().get_run(run_id="run") == winner

    async def test_another_handle_sees_everything(self) -> None:
        store = self.make_store()
        await store.register_run(RunRecord(run_id="run", started_at=NOON))
        await store.append_event(event("run", key="key"))
        await store.save_snapshot(snapshot("run", prompt("hi"), idempotency_key="key"))
        await store.record_tool_effect(effect("run", "call"))
        other = self.make_store()
        await other.append_event(event("run", key="key"))
        await other.save_snapshot(snapshot("run", prompt("again"), idempotency_key="key"))
        assert await other.get_run(run_id="run") == await store.get_run(run_id="run")
        assert await other.list_events(run_id="run") == [event("run", key="key")]
        assert [row.messages for row in await other.list_snapshots(run_id="run")] == [[prompt("hi")]]
        assert await other.list_unresolved_tool_effects(run_id="run") == [effect("run", "call")]

    async def test_what_the_caller_changes_later_was_not_saved(self) -> None:
        store = self.make_store()
        last = prompt("hi")
        messages: list[ModelMessage] = [last]
        await store.save_snapshot(ContinuableSnapshot(run_id="run", step_index=0, messages=messages, timestamp=NOON))
        last.metadata = {"stamped": "later"}
        messages.append(answer("hello"))
        await store.save_snapshot(ContinuableSnapshot(run_id="run", step_index=1, messages=messages, timestamp=NOON))
        first, second = await store.list_snapshots(run_id="run")
        assert first.messages == [prompt("hi")]
        assert second.messages == [last, answer("hello")]

    async def test_C08_text_that_a_database_refuses_is_saved_with_a_stand_in(self) -> None:
        store = self.make_store()
        text = "a\0b\ud800c"
        await store.register_run(RunRecord(run_id="run", agent_name=text, metadata={text: text}))
        await store.append_event(event("run", error=text, tool_name=text, metadata={"key": text}))
        await store.save_snapshot(snapshot("run", prompt(text)))
        await store.save_snapshot(snapshot("run", prompt("a\0b"), agent_name=text))
        await store.record_tool_effect(effect("run", text, effect_summary=text))
        shown = "a\ufffdb\ufffdc"
        (record,) = await store.list_runs()
        assert (record.agent_name, record.metadata) == (shown, {shown: shown})
        (row,) = await store.list_events(run_id="run")
        assert (row.error, row.tool_name, row.metadata) == (shown, shown, {"key": shown})
        first, second = await store.list_snapshots(run_id="run")
        assert first.messages[0].parts[0].content == shown
        assert second.messages == [prompt("a\0b")], "JSON can hold a NUL, so the model's own data stays as it is"
        saved = await store.get_tool_effect(run_id="run", tool_call_id=text)
        assert saved.effect_summary in (text, shown), "a live run may answer from memory"

    async def test_C09_numbers_without_a_json_form_are_saved_as_null(self) -> None:
        store = self.make_store()
        content = {"nan": float("nan"), "inf": float("inf"), "minus": -float("inf"), "one": 1.0}
        returned = ToolReturnPart("rate", content, tool_call_id="call", timestamp=NOON)
        await store.save_snapshot(snapshot("run", ModelRequest(parts=[returned])))
        saved = await store.latest_snapshot(run_id="run")
        assert saved.messages[0].parts[0].content == {"nan": None, "inf": None, "minus": None, "one": 1.0}

    async def test_C11_objects_without_a_json_form_are_saved_as_text(self) -> None:
        store = self.make_store()

        class Sullen:
            def __str__(self) -> str:
                raise RuntimeError("not now")

        class Odd:
            def __str__(self) -> str:
                return "odd"

        content = {
            "odd": Odd(),
            "sullen": Sullen(),
            "set": {1},
            "decimal": Decimal("1.10"),
            "error": ValueError("no"),
            "surrogate": ["\ud800", Odd()],
        }
        returned = ToolReturnPart("look", content, tool_call_id="call", timestamp=NOON)
        await store.save_snapshot(snapshot("run", ModelRequest(parts=[returned])))
        saved = await store.latest_snapshot(run_id="run")
        assert saved.messages[0].parts[0].content == {
            "odd": "odd",
            "sullen": "<Sullen>",
            "set": [1],
            "decimal": "1.10",
            "error": "no",
            "surrogate": ["\ufffd", "odd"],
        }

    async def test_C11_a_boundary_that_cannot_be_saved_leaves_those_before_it_valid(self) -> None:
        store = self.make_store()
        endless: list[Any] = []
        endless.append(endless)
        returned = ToolReturnPart("look", endless, tool_call_id="call", timestamp=NOON)
        await store.save_snapshot(snapshot("run", prompt("hi"), step=0, idempotency_key="0:key"))
        await store.save_snapshot(snapshot("run", prompt("hi"), ModelRequest(parts=[returned]), step=1))
        await store.save_snapshot(snapshot("run", prompt("hi"), answer("hello"), step=2))
        snapshots = await store.list_snapshots(run_id="run")
        assert [row.step_index for row in snapshots] == [0, 2]
        assert snapshots[1].messages == [prompt("hi"), answer("hello")]

    async def test_C12_a_large_file_comes_back_and_is_stored_once(self) -> None:
        store = self.make_store()
        document = BinaryContent(bytes(range(256)) * 16 * 1024, media_type="application/pdf")
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart([document], timestamp=NOON)])]
        for number in range(5):
            await store.save_snapshot(snapshot("run", *messages, step=number))
            messages = [*messages, answer(str(number))]
        snapshots = await store.list_snapshots(run_id="run")
        assert [len(row.messages) for row in snapshots] == [1, 2, 3, 4, 5]
        assert snapshots[-1].messages == messages[:-1]


def _call_once(messages: list[ModelMessage], tool: str, arguments: dict[str, Any]) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart(tool, arguments, tool_call_id="call_0")])


def _agent(
    *,
    fail_at: int | None = None,
    tool_error: Exception | None = None,
    requires_approval: bool = False,
    output_type: Any = str,
) -> Agent[StepStore, Any]:
    """Return an agent that calls its tool twice, then answers; with `fail_at`, that request of the model fails."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = sum(isinstance(message, ModelResponse) for message in messages)
        if number == fail_at:
            raise ConnectionError("no model")
        if number == 2:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("double", {"number": number}, tool_call_id=f"call_{number}")])

    agent: Agent[StepStore, Any] = Agent(FunctionModel(respond), deps_type=StepStore, output_type=output_type)

    @agent.tool(requires_approval=requires_approval)
    async def double(ctx: RunContext[StepStore], number: int) -> int:
        if tool_error is not None:
            raise tool_error
        await annotate_tool_effect(ctx.deps, ctx, idempotency_key="key", effect_summary=f"doubled {number}")
        return 2 * number

    return agent
