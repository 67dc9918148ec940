"""Runs written out by hand, as AG-UI 1.0 events."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    DataSource,
    ImagePart,
    Interrupt,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

USER = UserMessage(id="u1", role="user", content="go")
INPUT = RunAgentInput(thread_id="t1", run_id="r1", state={}, messages=[USER], tools=[], context=[], forwarded_props={})
STARTED = RunStartedEvent(thread_id="t1", run_id="r1", input=INPUT)
FINISHED = RunFinishedEvent(thread_id="t1", run_id="r1", outcome=RunFinishedSuccessOutcome())
EARLIER = [
    {"id": "u0", "role": "user", "content": [{"type": "text", "text": "look"}]},
    {"id": "a0", "role": "assistant", "content": "", "toolCalls": [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"}, "metadata": {"k": 1}}
    ]},
    {"id": "t0", "role": "tool", "content": "seen", "toolCallId": "c0", "error": "late"},
    {"id": "think0", "role": "reasoning", "content": "hm", "encryptedValue": "x"},
    {"id": "act0", "role": "activity", "activityType": "plan", "content": {"steps": []}},
]  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """The events of one run, and what there was before it. `older` clients understand all of it."""

    events: Sequence[BaseEvent]
    messages: Sequence[dict[str, Any]] = ()
    state: Any = field(default_factory=dict)
    older: bool = True


def text(message_id: str, *deltas: str, **start: Any) -> list[BaseEvent]:
    return [
        TextMessageStartEvent(message_id=message_id, **start),
        *(TextMessageContentEvent(message_id=message_id, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=message_id),
    ]


def call(call_id: str, *deltas: str, name: str = "f", **start: Any) -> list[BaseEvent]:
    return [
        ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name, **start),
        *(ToolCallArgsEvent(tool_call_id=call_id, delta=delta) for delta in deltas),
        ToolCallEndEvent(tool_call_id=call_id),
    ]


def result(call_id: str, content: Any = "ok", **more: Any) -> ToolCallResultEvent:
    return ToolCallResultEvent(message_id=f"result-{call_id}", tool_call_id=call_id, content=content, **more)


def reasoning(message_id: str, *deltas: str, **start: Any) -> list[BaseEvent]:
    return [
        ReasoningStartEvent(message_id=message_id, **start),
        ReasoningMessageStartEvent(message_id=message_id, **start),
        *(ReasoningMessageContentEvent(message_id=message_id, delta=delta) for delta in deltas),
        ReasoningMessageEndEvent(message_id=message_id),
        ReasoningEndEvent(message_id=message_id),
    ]


def subagent(name: str, *events: BaseEvent, **more: Any) -> list[BaseEvent]:
    """Return a subagent's run of events, each attributed to it."""
    return [
        SubagentStartedEvent(subagent_run_id=name, name="helper", **more),
        *(event.model_copy(update={"subagent_run_id": name}) for event in events),
        SubagentFinishedEvent(subagent_run_id=name),
    ]


def run(*parts: BaseEvent | Sequence[BaseEvent], end: BaseEvent | None = FINISHED) -> list[BaseEvent]:
    events: list[BaseEvent] = [STARTED]
    for part in parts:
        events += [part] if isinstance(part, BaseEvent) else part
    return events if end is None else [*events, end]


PICTURE = [
    TextPart(text="a picture"),
    ImagePart(source=DataSource(value="AAAA", mime_type="image/png"), metadata={"w": 1}),
]

STREAMS = {
    "text": Stream(run(text("m1", "Hel", "lo", "", " 🦊"), text("m2", name="Ada", role="developer"))),
    "reasoning": Stream(
        run(
            reasoning("m1", "so ", "then"),
            ReasoningEncryptedValueEvent(subtype="message", entity_id="m1", encrypted_value="sig"),
            text("m2", "done"),
            ReasoningEncryptedValueEvent(subtype="message", entity_id="m2", encrypted_value="sig2"),
        )
    ),
    "parallel tools": Stream(
        run(
            text("m1", "let me see"),
            ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m1"),
            ToolCallStartEvent(tool_call_id="c2", tool_call_name="g", parent_message_id="m1"),
            ToolCallArgsEvent(tool_call_id="c2", delta='{"a"'),
            ToolCallArgsEvent(tool_call_id="c1", delta="{"),
            ToolCallArgsEvent(tool_call_id="c2", delta=":1}"),
            ToolCallArgsEvent(tool_call_id="c1", delta="}"),
            ToolCallEndEvent(tool_call_id="c1"),
            ToolCallEndEvent(tool_call_id="c2"),
            ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="c2", encrypted_value="sig"),
            text("m2", "meanwhile"),
            result("c2", "two"),
            result("c1", "one"),
            text("m3", "done"),
            result("unknown", "whose?"),
        )
    ),
    "calls without a message of their own": Stream(
        run(call("c1", "{}"), result("c1"), call("c2", parent_message_id="m9"), text("m9", "after"), call("c3"))
    ),
    "a parent that cannot be one": Stream(run(call("c1", "{}", parent_message_id="u1"), result("c1"))),
    "a call that is started again": Stream(
        run(call("c0", "x", name="g", parent_message_id="a0"), result("c0")), messages=EARLIER
    ),
    "multimodal results": Stream(run(call("c1", "{}"), result("c1", PICTURE, role="tool")), older=False),
    "activity": Stream(
        run(
            ActivitySnapshotEvent(message_id="act", activity_type="plan", content={"steps": []}, metadata={"a": 1}),
            ActivityDeltaEvent(
                message_id="act",
                activity_type="plan",
                patch=[{"op": "add", "path": "/steps/-", "value": {"n": 1, "at": None}}],
                metadata={"b": 2},
            ),
            ActivityDeltaEvent(message_id="act", activity_type="other", patch=[{"op": "remove", "path": "/gone"}]),
            ActivityDeltaEvent(message_id="act", activity_type="other", patch=[]),
            ActivityDeltaEvent(message_id="nobody", activity_type="plan", patch=[]),
            ActivityDeltaEvent(message_id="u1", activity_type="plan", patch=[]),
            ActivitySnapshotEvent(message_id="act", activity_type="plan", content={"n": 0}, replace=False),
            ActivitySnapshotEvent(message_id="act", activity_type="chart", content={"n": 1}, metadata={"a": 3}),
            text("act", "no text goes to an activity"),
            ActivitySnapshotEvent(message_id="u1", activity_type="plan", content={}, replace=False),
            ActivitySnapshotEvent(message_id="u1", activity_type="plan", content={"was": "user"}),
        )
    ),
    "reasoning on an activity": Stream(
        run(ActivitySnapshotEvent(message_id="act", activity_type="plan", content={}), reasoning("act", "no")),
        older=False,
    ),
    "state": Stream(
        run(
            StateDeltaEvent(delta=[{"op": "add", "path": "/n", "value": 1}]),
            StateSnapshotEvent(snapshot={"list": [1, 2], "deep": {"a/b": {"~": None}}}),
            StateDeltaEvent(
                delta=[
                    {"op": "replace", "path": "/deep/a~1b/~0", "value": [True]},
                    {"op": "move", "from": "/list/0", "path": "/list/1"},
                    {"op": "copy", "from": "/deep", "path": "/list/-"},
                    {"op": "test", "path": "/list/0", "value": 2},
                ]
            ),
            StateDeltaEvent(
                delta=[{"op": "remove", "path": "/list"}, {"op": "test", "path": "/deep", "value": "not that"}]
            ),
            StateDeltaEvent(delta=[{"op": "move", "from": "/nowhere", "path": "/n"}]),
            StateDeltaEvent(delta=[{"op": "replace", "path": "", "value": [0]}]),
            StateSnapshotEvent(snapshot=None),
            StateSnapshotEvent(snapshot={"end": 0}),
        ),
        state={"m": 0},
    ),
    "snapshots of messages": Stream(
        run(
            text("m1", "gone"),
            reasoning("think1", "kept"),
            TextMessageStartEvent(message_id="m2"),
            TextMessageContentEvent(message_id="m2", delta="half"),
            MessagesSnapshotEvent(
                messages=[
                    {"id": "new", "role": "system", "content": "first of all"},
                    {"id": "m2", "role": "assistant", "content": "HALF", "toolCalls": []},
                    USER,
                    *EARLIER[:3],
                ]
            ),
            TextMessageContentEvent(message_id="m2", delta=" and half"),
            TextMessageEndEvent(message_id="m2"),
            call("c1", "{}", parent_message_id="m2"),
            MessagesSnapshotEvent(
                messages=[
                    USER,
                    {"id": "think2", "role": "reasoning", "content": "instead"},
                    {"id": "act0", "role": "activity", "activityType": "plan", "content": {"steps": [1]}},
                ]
            ),
            result("c1", "to nobody"),
            MessagesSnapshotEvent(messages=[]),
        ),
        messages=EARLIER,
    ),
    **{
        f"a snapshot that owns activities: {name}": Stream(
            run(
                ActivitySnapshotEvent(message_id="act1", activity_type="chart", content={}),
                MessagesSnapshotEvent(messages=messages, metadata={"@ag-ui/client": declared}),
            ),
            messages=EARLIER,
            older=False,
        )
        for name, declared, messages in (
            ("all", {"authoritativeActivityTypes": None}, []),
            ("one type", {"authoritativeActivityTypes": ["plan"]}, []),
            ("none", {"authoritativeActivityTypes": []}, [{**EARLIER[4], "id": "other"}]),
            ("nonsense", {"authoritativeActivityTypes": "plan"}, [{**EARLIER[4], "id": "other"}]),
            ("more nonsense", ["plan"], [{**EARLIER[4], "id": "other"}]),
            ("nothing said", {"else": 1}, [{**EARLIER[4], "id": "other"}]),
        )
    },
    "subagents": Stream(
        run(
            call("c1", '{"task": 1}', name="delegate"),
            subagent(
                "s1",
                StepStartedEvent(step_name="work"),
                *text("m1", "mine"),
                *call("c2", "{}", parent_message_id="m1"),
                result("c2"),
                *call("c3"),
                *reasoning("m2", "hm"),
                ActivitySnapshotEvent(message_id="act", activity_type="plan", content={}),
                StepFinishedEvent(step_name="work"),
                parent_tool_call_id="c1",
            ),
            SubagentStartedEvent(subagent_run_id="s2", name="child", parent_subagent_run_id="s1"),
            ActivitySnapshotEvent(message_id="act", activity_type="plan", content={}, subagent_run_id="s2"),
            ActivitySnapshotEvent(message_id="act", activity_type="plan", content={"mine": True}),
            SubagentErrorEvent(subagent_run_id="s2", message="no"),
            result("c1"),
        )
    ),
    "metadata": Stream(
        run(
            TextMessageStartEvent(message_id="m1", metadata={"a": {"x": 1}, "b": 1}),
            TextMessageContentEvent(message_id="m1", delta="!", metadata={"b": None}),
            TextMessageEndEvent(message_id="m1", metadata={"usage": [1, 2], "a": {}}),
            ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m1", metadata={"s": 1}),
            ToolCallArgsEvent(tool_call_id="c1", delta="", metadata={}),
            ToolCallEndEvent(tool_call_id="c1", metadata={"e": 1}),
            result("c1", metadata={"cost": 0.5}),
            ReasoningStartEvent(message_id="m2", metadata={"not": "merged"}),
            ReasoningMessageStartEvent(message_id="m2", metadata={"r": 1}),
            ReasoningMessageEndEvent(message_id="m2", metadata={"r": 2}),
            ReasoningEndEvent(message_id="m2"),
            TextMessageStartEvent(message_id="m3", metadata={}),
            TextMessageEndEvent(message_id="m3"),
        )
    ),
    "chunks": Stream(
        run(
            TextMessageChunkEvent(message_id="m1", delta="Hel", metadata={"a": 1}),
            RawEvent(event={}),
            TextMessageChunkEvent(delta="lo"),
            TextMessageChunkEvent(metadata={"b": 2}),
            ToolCallChunkEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="m1"),
            ToolCallChunkEvent(delta="{"),
            ToolCallChunkEvent(tool_call_id="c1", delta="}"),
            ToolCallChunkEvent(tool_call_id="c2", tool_call_name="g", delta="{}"),
            ReasoningMessageChunkEvent(message_id="m2", delta="hm"),
            ReasoningMessageChunkEvent(raw_event={"n": 1}),
            CustomEvent(name="a pause", value=None),
            result("c1"),
            result("c2"),
            TextMessageChunkEvent(message_id="m3", role="system", name="Ada"),
        )
    ),
    "chunks of two subagents at once": Stream(
        run(
            SubagentStartedEvent(subagent_run_id="s1", name="one"),
            SubagentStartedEvent(subagent_run_id="s2", name="two"),
            TextMessageChunkEvent(message_id="m1", delta="a", subagent_run_id="s1"),
            TextMessageChunkEvent(message_id="m2", delta="b", subagent_run_id="s2"),
            TextMessageChunkEvent(delta="a", subagent_run_id="s1"),
            TextMessageChunkEvent(message_id="m2", delta="b"),
            StateSnapshotEvent(snapshot={}),
            TextMessageChunkEvent(delta="b", subagent_run_id="s2"),
            SubagentFinishedEvent(subagent_run_id="s2"),
            TextMessageChunkEvent(delta="a"),
            MessagesSnapshotEvent(messages=[{"id": "m1", "role": "assistant", "content": "A"}]),
            TextMessageChunkEvent(message_id="m1", delta="!", subagent_run_id=None),
            SubagentErrorEvent(subagent_run_id="s1", message="no"),
        ),
        older=False,
    ),
    "earlier messages": Stream(
        run(
            text("a0", "text for a message of old"),
            text("u0", "instead of its parts"),
            ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="c0", encrypted_value="sig"),
            ReasoningEncryptedValueEvent(subtype="message", entity_id="act0", encrypted_value="sig"),
        ),
        messages=EARLIER,
    ),
    "error": Stream(
        run(
            StepStartedEvent(step_name="plan"),
            TextMessageStartEvent(message_id="m1"),
            TextMessageContentEvent(message_id="m1", delta="half a sen"),
            end=RunErrorEvent(message="no", code="x"),
        )
    ),
    "cancel": Stream(
        run(
            text("m1", "half"),
            call("c1", '{"a":'),
            result("c1", "interrupted"),
            end=RunFinishedEvent(thread_id="t1", run_id="r1", outcome=RunFinishedCancelledOutcome()),
        ),
        older=False,
    ),
    "interrupt": Stream(
        run(
            call("c1", "{}"),
            end=RunFinishedEvent(
                thread_id="t1",
                run_id="r1",
                outcome=RunFinishedInterruptOutcome(
                    interrupts=[Interrupt(id="i1", reason="tool_call", tool_call_id="c1")]
                ),
            ),
        )
    ),
}
