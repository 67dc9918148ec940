"""Runs drawn by hypothesis: any sequence of events that AG-UI 1.0 allows."""

from collections.abc import Sequence
from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from hypothesis import strategies as st

from django_pydantic_agent.log.document import Document
from django_pydantic_agent.log.frames import encode, wire_form
from django_pydantic_agent.log.projection import Projection
from tests.core.streams import EARLIER, FINISHED, PICTURE, STARTED, Stream

MESSAGE_IDS = ("m1", "m2", "m3", "a0", "u1", "act0")
CALL_IDS = ("c0", "c1", "c2", "c3", "c4")


deltas = st.text(max_size=4)
names = st.sampled_from(["x", "y", "a/b", "~", "0", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(names, values, max_size=3)
metadata = st.none() | st.dictionaries(st.sampled_from("kl"), values, max_size=2)


@st.composite
def patches(draw: st.DrawFn, value: Any, *, root: bool = True) -> list[dict[str, Any]]:
    """Draw a JSON Patch, most of whose pointers lead somewhere in `value`, and which changes the root only if it may.

    Left out are moves and copies that RFC 6902 forbids, because the client does some of them: it makes a circle of a
    value that moves into itself, a document of nothing, and appends where an index is too high.
    """
    document = Document(value)
    operations = []
    for _ in range(draw(st.integers(0, 3))):
        operation = {"op": draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]))}
        operation["path"] = draw(pointers(document.value))
        if operation["op"] in ("move", "copy"):
            operation["from"] = draw(pointers(document.value))
        elif operation["op"] != "remove":
            operation["value"] = draw(values)
        if operation["path"] or root:
            applied = document.patch([operation])
            if applied or operation["op"] not in ("move", "copy"):
                operations.append(operation)
    return operations


@st.composite
def pointers(draw: st.DrawFn, document: Any) -> str:
    path = ""
    while isinstance(document, dict | list) and draw(st.integers(0, 3)):
        if isinstance(document, dict):
            key = draw(st.sampled_from(sorted(document)) if document and draw(st.integers(0, 3)) else names)
            document = document.get(key)
        else:
            index = draw(st.integers(0, len(document)))
            key = "-" if index == len(document) and draw(st.booleans()) else str(index)
            document = document[index] if index < len(document) else None
        path += "/" + key.replace("~", "~0").replace("/", "~1")
    return path


class Drawing:
    """A run that is being drawn, with what the protocol lets come next."""

    def __init__(self, draw: st.DrawFn, *, losses: bool) -> None:
        self.draw = draw
        self.losses = losses
        self.messages = draw(st.sampled_from([[], EARLIER]))
        self.state = wire_form(draw(objects))
        self.events: list[BaseEvent] = []
        self.so_far = Projection(self.messages, state=self.state)
        self.open: dict[tuple[str, str], str | None] = {}
        self.owners: dict[tuple[str, str], str | None] = {}
        self.results = 0
        self.subagents = 0
        self.log(STARTED)
        self.learn([*self.messages, {"id": "u1", "role": "user"}])

    def log(self, event: BaseEvent) -> None:
        self.events.append(event)
        self.so_far.apply_frame(encode(event))

    def learn(self, messages: Sequence[dict[str, Any]]) -> None:
        """Take note of whom the messages of a snapshot belong to."""
        for message in messages:
            kind = {"reasoning": "reasoning", "activity": "activity"}.get(message["role"], "text")
            self.owners[kind, message["id"]] = message.get("subagentRunId")
            for call in message.get("toolCalls", ()):
                self.owners["call", call["id"]] = message.get("subagentRunId")

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def owner(self, kind: str, name: str) -> str | None:
        """Draw whom an item that starts now says it belongs to."""
        if (kind, name) in self.owners:
            return self.one_of(None, self.owners[kind, name])
        self.owners[kind, name] = self.one_of(None, *(name for kind, name in self.open if kind == "subagent"))
        return self.owners[kind, name]

    def step(self) -> None:
        move = self.draw(st.sampled_from([self.start, self.go_on, self.go_on, self.end, self.tell, self.tell]))
        move()

    def start(self) -> None:
        kind = self.one_of("text", "text", "span", "reasoning", "call", "call", "step", "subagent")
        if kind == "subagent":
            name = f"s{len([owner for owner in self.owners if owner[0] == 'subagent'])}"
        else:
            name = self.one_of(*(CALL_IDS if kind == "call" else MESSAGE_IDS))
        if (kind, name) in self.open:
            return
        given = {"metadata": self.draw(metadata)}
        if kind == "text":
            owner = self.owner("text", name)
            role = self.one_of(None, "assistant", "user")
            self.log(TextMessageStartEvent(message_id=name, role=role, subagent_run_id=owner, **given))
        elif kind == "span":
            owner = self.owner("reasoning", name)
            self.log(ReasoningStartEvent(message_id=name, subagent_run_id=owner, **given))
        elif kind == "reasoning":
            owner = self.owner("reasoning", name)
            self.log(ReasoningMessageStartEvent(message_id=name, subagent_run_id=owner, **given))
        elif kind == "call":
            owner = self.start_call(name, given)
        elif kind == "step":
            owner = self.one_of(None, *(name for kind, name in self.open if kind == "subagent"))
            self.log(StepStartedEvent(step_name=name, subagent_run_id=owner))
        else:
            owner = None
            parent = self.one_of(None, *(name for kind, name in self.owners if kind == "subagent"))
            self.owners["subagent", name] = None
            self.log(SubagentStartedEvent(subagent_run_id=name, name="helper", parent_subagent_run_id=parent))
        self.open[kind, name] = owner

    def start_call(self, name: str, given: dict[str, Any]) -> str | None:
        """Start a call in a message of the same owner, as a call has none of its own."""
        parent = self.one_of(None, *MESSAGE_IDS)
        if ("call", name) in self.owners:
            parent, owner = None, self.one_of(None, self.owners["call", name])
        elif ("text", parent) in self.owners:
            self.owners["call", name] = self.owners["text", parent]
            owner = self.one_of(None, self.owners["text", parent])
        else:
            owner = self.owner("call", name)
            self.owners["text", parent or name] = owner
        self.log(
            ToolCallStartEvent(
                tool_call_id=name,
                tool_call_name=self.one_of("f", "g"),
                parent_message_id=parent,
                subagent_run_id=owner,
                **given,
            )
        )
        return owner

    def go_on(self) -> None:
        grows = {
            "text": lambda name, **more: TextMessageContentEvent(message_id=name, **more),
            "reasoning": lambda name, **more: ReasoningMessageContentEvent(message_id=name, **more),
            "call": lambda name, **more: ToolCallArgsEvent(tool_call_id=name, **more),
        }
        items = [(kind, name) for kind, name in self.open if kind in grows]
        if items:
            kind, name = self.one_of(*items)
            self.log(grows[kind](name, delta=self.draw(deltas), metadata=self.draw(metadata)))

    def end(self) -> None:
        if self.open:
            self.close(*self.one_of(*self.open), metadata=self.draw(metadata))

    def close(self, kind: str, name: str, **given: Any) -> None:
        owner = self.open.pop((kind, name))
        if kind == "text":
            self.log(TextMessageEndEvent(message_id=name, **given))
        elif kind == "span":
            self.log(ReasoningEndEvent(message_id=name, **given))
        elif kind == "reasoning":
            self.log(ReasoningMessageEndEvent(message_id=name, **given))
        elif kind == "call":
            self.log(ToolCallEndEvent(tool_call_id=name, **given))
        elif kind == "step":
            self.log(StepFinishedEvent(step_name=name, subagent_run_id=owner))
        else:
            self.log(SubagentFinishedEvent(subagent_run_id=name))

    def tell(self) -> None:
        moves = [self.result, self.result, self.encrypted, self.activity, self.patch, self.change_state]
        move = self.draw(st.sampled_from([*moves, self.snapshot] if self.losses else moves))
        move()

    def result(self) -> None:
        self.results += 1
        name = f"r{self.results}"
        owner = self.owners["text", name] = self.one_of(None, *(name for kind, name in self.open if kind == "subagent"))
        self.log(
            ToolCallResultEvent(
                message_id=name,
                tool_call_id=self.one_of(*CALL_IDS),
                content=self.one_of("ok", "", PICTURE),
                subagent_run_id=owner,
                metadata=self.draw(metadata),
            )
        )

    def encrypted(self) -> None:
        subtype = self.one_of("message", "tool-call")
        name = self.one_of(*(CALL_IDS if subtype == "tool-call" else MESSAGE_IDS))
        self.log(ReasoningEncryptedValueEvent(subtype=subtype, entity_id=name, encrypted_value=self.draw(deltas)))

    def activity(self) -> None:
        name = self.one_of("act0", "act1", "m1") if self.losses else "act1"
        owner = self.one_of(None, *(name for kind, name in self.open if kind == "subagent"))
        self.log(
            ActivitySnapshotEvent(
                message_id=name,
                activity_type=self.one_of("plan", "chart"),
                content=self.draw(objects),
                replace=self.one_of(None, True, False),
                subagent_run_id=owner,
                metadata=self.draw(metadata),
            )
        )

    def patch(self) -> None:
        name = self.one_of("act0", "act1", "m1")
        content = next((message.get("content") for message in self.so_far.messages if message["id"] == name), {})
        event = ActivityDeltaEvent(
            message_id=name,
            activity_type=self.one_of("plan", "chart"),
            patch=self.draw(patches(content, root=False)),
            metadata=self.draw(metadata),
        )
        self.log(event)

    def change_state(self) -> None:
        if self.draw(st.booleans()):
            self.log(StateSnapshotEvent(snapshot=self.draw(values)))
        else:
            self.log(StateDeltaEvent(delta=self.draw(patches(self.so_far.state))))

    def snapshot(self) -> None:
        """Restate some of the messages, some of them changed, and some that are new."""
        messages = []
        for message in self.so_far.messages:
            fate = self.one_of("stays", "stays", "changes", "goes")
            if fate != "goes":
                messages.append({**message, "metadata": {"n": 1}} if fate == "changes" else message)
        if self.draw(st.booleans()):
            fresh = {"id": f"n{len(self.events)}", "role": self.one_of("user", "assistant", "reasoning"), "content": ""}
            messages.insert(self.draw(st.integers(0, len(messages))), fresh)
        declared = self.one_of(None, {"@ag-ui/client": {"authoritativeActivityTypes": self.one_of(None, ["plan"])}})
        self.learn(messages)
        self.log(MessagesSnapshotEvent(messages=messages, metadata=declared))


@st.composite
def streams(draw: st.DrawFn, *, losses: bool = True) -> Stream:
    """Draw a run. With `losses`, snapshots may take messages away while they are being written."""
    drawing = Drawing(draw, losses=losses)
    for _ in range(draw(st.integers(1, 40))):
        drawing.step()
    for kind, name in list(drawing.open):
        drawing.close(kind, name)
    drawing.log(FINISHED)
    return Stream(drawing.events, messages=drawing.messages, state=drawing.state)


@st.composite
def chunk_streams(draw: st.DrawFn) -> Stream:
    """Draw chunks of three kinds in three lanes among other events; not all that is drawn is legal."""
    lane = st.sampled_from([None, None, "s1", "s2"])
    item = st.sampled_from([None, None, "m1", "m2"])
    given = {"delta": st.none() | deltas, "metadata": metadata, "subagent_run_id": lane}
    event = st.one_of(
        st.builds(TextMessageChunkEvent, message_id=item, role=st.sampled_from([None, "user"]), **given),
        st.builds(ReasoningMessageChunkEvent, message_id=item, raw_event=st.sampled_from([None, 1]), **given),
        st.builds(ToolCallChunkEvent, tool_call_id=item, tool_call_name=st.sampled_from([None, "f", "f"]), **given),
        st.builds(ToolCallResultEvent, message_id=st.uuids().map(str), tool_call_id=item.filter(bool), content=deltas),
        st.builds(ActivitySnapshotEvent, message_id=st.just("act"), activity_type=st.just("plan"), content=objects),
        st.builds(StateSnapshotEvent, snapshot=objects, subagent_run_id=lane),
        st.builds(RawEvent, event=values, subagent_run_id=lane),
    )
    return Stream([STARTED, *draw(st.lists(event, max_size=12))])
