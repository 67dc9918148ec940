"""The messages and the state that a run's events add up to, as AG-UI clients add them up."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import EventType
from pydantic_core import from_json, to_json

from django_pydantic_agent.log.closing import OpenItems
from django_pydantic_agent.log.document import Document
from django_pydantic_agent.log.frames import JsonObject
from django_pydantic_agent.log.transcript import Call, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What came to be different since the last look.

    `messages` are the new, changed and moved ones with their places in the transcript, in order; `state` tells whether
    the state was written. `size` is that of messages and state in bytes.
    """

    messages: list[tuple[int, JsonObject]]
    state: bool
    size: int


class Projection:
    """Folds the events of a run into messages and state, and keeps account of what they leave open.

    It does what the reducer of `@ag-ui/client` 1.0.0 does, but for faulty patches that the client applies all the same:
    moves and copies that RFC 6902 forbids, and what makes an activity's content anything but an object. Chunks are not
    among the events, because the log holds what they stand for. `messages` and `state` are what there was before the
    run, as JSON in the form it has on the wire. They are left as they are, and so is all that a projection has
    returned: later events do not change it.
    """

    def __init__(self, messages: Iterable[JsonObject] = (), *, state: Any) -> None:
        self.items = OpenItems()
        self._state = Document(state)
        self._state_written = False
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._calls: dict[str, Call] = {}
        self._seen_ids: dict[str, None] = {}
        self._changed: set[Entry] = set()
        for message in messages:
            self._append(Entry(message))
        self._changed.clear()

    def apply_frame(self, frame: bytes) -> None:
        """Take in the next frame of the log."""
        self.apply_json(from_json(frame))

    def apply_json(self, event: JsonObject) -> None:
        """Take in the next event in the form it has on the wire."""
        self.items.observe(event)
        if (fold := _FOLDS.get(event["type"])) is not None:
            fold(self, event)

    @property
    def messages(self) -> list[JsonObject]:
        """The whole transcript, as in a MESSAGES_SNAPSHOT."""
        return [entry.as_json() for entry in self._entries]

    @property
    def state(self) -> Any:
        return self._state.value

    @property
    def message_ids(self) -> list[str]:
        """The ids of all messages that ever stood in the transcript, in order of appearance."""
        return list(self._seen_ids)

    def take_changes(self) -> Changes:
        """Return what changed since the last call, or since the beginning; costs as much as there is to return."""
        messages = []
        for position in range(len(self._entries) - 1, -1, -1):
            if not self._changed:
                break
            entry = self._entries[position]
            if entry in self._changed:
                self._changed.remove(entry)
                messages.append((position, entry.as_json()))
        written = [message for _, message in messages]
        if self._state_written:
            written.append(self.state)
        changes = Changes(
            messages=messages[::-1],
            state=self._state_written,
            size=len(to_json(written)),
        )
        self._state_written = False
        return changes

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._by_id.setdefault(entry.id, entry)
        for call in entry.calls or ():
            self._calls.setdefault(call.id, call)
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        self._changed.add(entry)
        self._seen_ids[entry.id] = None

    def _index(self) -> None:
        """Find messages and calls anew; where an id stands twice, the first is meant."""
        backwards = self._entries[::-1]
        self._by_id = {entry.id: entry for entry in backwards}
        self._calls = {call.id: call for entry in backwards for call in reversed(entry.calls or ())}

    def _place(self, entry: Entry) -> int:
        """Return where an entry stands; it is looked for from the end, where a run writes."""
        position = len(self._entries) - 1
        while self._entries[position] is not entry:
            position -= 1
        return position

    def _written(self, message_id: str) -> Entry | None:
        """Return the message that text and metadata may go to: there are none to go to an activity."""
        entry = self._by_id.get(message_id)
        return entry if entry is not None and entry.role != "activity" else None

    def _run_started(self, event: JsonObject) -> None:
        for message in event.get("input", {}).get("messages", ()):
            if message["id"] not in self._by_id:
                self._append(Entry(message))

    def _message_start(self, event: JsonObject) -> None:
        if event["messageId"] not in self._by_id:
            message = {"id": event["messageId"], "role": event.get("role", "assistant"), "content": ""}
            self._append(Entry({**message, **_given(event, "name", "subagentRunId")}))
        self._message_end(event)

    def _message_content(self, event: JsonObject) -> None:
        if (entry := self._written(event["messageId"])) is not None:
            entry.deltas.append(event["delta"])
            entry.merge_metadata(event)
            self._changed.add(entry)

    def _message_end(self, event: JsonObject) -> None:
        entry = self._written(event["messageId"])
        if entry is not None and entry.merge_metadata(event):
            self._changed.add(entry)

    def _tool_call_start(self, event: JsonObject) -> None:
        call = self._calls.get(event["toolCallId"])
        if call is None:
            call = self._caller(event).add_call(event["toolCallId"], event["toolCallName"])
            self._calls[call.id] = call
        call.function["name"] = event["toolCallName"]
        call.merge_metadata(event)
        self._changed.add(call.entry)

    def _caller(self, event: JsonObject) -> Entry:
        """Return the assistant message that a new tool call belongs to, a new one where there is none."""
        parent_id = event.get("parentMessageId")
        parent = self._by_id.get(parent_id) if parent_id else None
        if parent is not None and parent.role == "assistant":
            return parent
        caller_id = parent_id if parent_id and parent is None else event["toolCallId"]
        owner = _given(event, "subagentRunId") if caller_id not in self._by_id else {}
        caller = Entry({"id": caller_id, "role": "assistant", **owner})
        self._append(caller)
        return caller

    def _tool_call_args(self, event: JsonObject) -> None:
        if (call := self._calls.get(event["toolCallId"])) is not None:
            call.deltas.append(event["delta"])
            call.merge_metadata(event)
            self._changed.add(call.entry)

    def _tool_call_end(self, event: JsonObject) -> None:
        call = self._calls.get(event["toolCallId"])
        if call is not None and call.merge_metadata(event):
            self._changed.add(call.entry)

    def _tool_call_result(self, event: JsonObject) -> None:
        """Put the result behind its call and the results that stand there, or last where nobody knows the call."""
        entry = Entry(
            {"id": event["messageId"], "role": "tool", **_given(event, "toolCallId", "content", "subagentRunId")}
        )
        entry.merge_metadata(event)
        call = self._calls.get(event["toolCallId"])
        position = len(self._entries) if call is None else self._place(call.entry) + 1
        while position < len(self._entries) and self._entries[position].role == "tool":
            position += 1
        moved = self._entries[position:]
        del self._entries[position:]
        self._append(entry)
        self._entries += moved
        self._changed.update(moved)
        if self._by_id[entry.id] in moved:
            self._index()

    def _state_snapshot(self, event: JsonObject) -> None:
        self._state = Document(event["snapshot"])
        self._state_written = True

    def _state_delta(self, event: JsonObject) -> None:
        self._state_written |= self._state.patch(event["delta"])

    def _messages_snapshot(self, event: JsonObject) -> None:
        """Replace what the snapshot holds, drop what it leaves out, append what is new.

        Reasoning and activities that it leaves out stay, unless it holds such messages or declares that they are its.
        """
        incoming = [Entry(message) for message in event["messages"]]
        by_id = {entry.id: entry for entry in incoming}
        roles = {entry.role for entry in incoming}
        dropped_activities = _dropped_activities(event, by_default=None if "activity" in roles else ())

        def stays(entry: Entry) -> bool:
            if entry.role == "activity":
                return dropped_activities is not None and entry.fields["activityType"] not in dropped_activities
            return entry.role == "reasoning" and "reasoning" not in roles

        before = self._entries
        self._entries = [by_id.get(entry.id, entry) for entry in before if entry.id in by_id or stays(entry)]
        known = {entry.id for entry in self._entries}
        self._entries += [entry for entry in incoming if entry.id not in known]
        self._index()
        changed = [
            entry
            for position, entry in enumerate(self._entries)
            if position >= len(before) or before[position] in self._changed or not entry.equals(before[position])
        ]
        self._changed.clear()
        for entry in changed:
            self._note(entry)

    def _activity_snapshot(self, event: JsonObject) -> None:
        entry = self._by_id.get(event["messageId"])
        replaces = event.get("replace", True)
        if entry is not None and not replaces and entry.role != "activity":
            return
        if entry is None or replaces:
            given = _given(event, "activityType", "content", "subagentRunId")
            activity = Entry({"id": event["messageId"], "role": "activity", **given})
            if entry is None:
                self._append(activity)
            else:
                self._replace(entry, activity)
            entry = activity
        entry.merge_metadata(event)
        self._changed.add(entry)

    def _replace(self, entry: Entry, activity: Entry) -> None:
        """Put an activity in the place of a message; metadata of an activity goes over to it."""
        if entry.role == "activity":
            activity.merge_metadata(entry.fields)
        self._entries[self._place(entry)] = activity
        self._changed.discard(entry)
        if entry.calls:
            self._index()
        else:
            self._by_id[activity.id] = activity

    def _activity_delta(self, event: JsonObject) -> None:
        entry = self._by_id.get(event["messageId"])
        if entry is None or entry.document is None:
            return
        merged = entry.merge_metadata(event)
        if patched := entry.document.patch(event["patch"]):
            entry.fields["activityType"] = event["activityType"]
        if merged or patched:
            self._changed.add(entry)

    def _encrypted_value(self, event: JsonObject) -> None:
        if event["subtype"] == "tool-call":
            if (call := self._calls.get(event["entityId"])) is not None:
                call.fields["encryptedValue"] = event["encryptedValue"]
                self._changed.add(call.entry)
        elif (entry := self._written(event["entityId"])) is not None:
            entry.fields["encryptedValue"] = event["encryptedValue"]
            self._changed.add(entry)


_FOLDS: dict[str, Callable[[Projection, JsonObject], None]] = {
    EventType.RUN_STARTED: Projection._run_started,
    EventType.TEXT_MESSAGE_START: Projection._message_start,
    EventType.TEXT_MESSAGE_CONTENT: Projection._message_content,
    EventType.TEXT_MESSAGE_END: Projection._message_end,
    EventType.REASONING_MESSAGE_START: Projection._message_start,
    EventType.REASONING_MESSAGE_CONTENT: Projection._message_content,
    EventType.REASONING_MESSAGE_END: Projection._message_end,
    EventType.REASONING_ENCRYPTED_VALUE: Projection._encrypted_value,
    EventType.TOOL_CALL_START: Projection._tool_call_start,
    EventType.TOOL_CALL_ARGS: Projection._tool_call_args,
    EventType.TOOL_CALL_END: Projection._tool_call_end,
    EventType.TOOL_CALL_RESULT: Projection._tool_call_result,
    EventType.STATE_SNAPSHOT: Projection._state_snapshot,
    EventType.STATE_DELTA: Projection._state_delta,
    EventType.MESSAGES_SNAPSHOT: Projection._messages_snapshot,
    EventType.ACTIVITY_SNAPSHOT: Projection._activity_snapshot,
    EventType.ACTIVITY_DELTA: Projection._activity_delta,
}


def _given(event: JsonObject, *keys: str) -> JsonObject:
    return {key: event[key] for key in keys if key in event}


def _dropped_activities(event: JsonObject, *, by_default: Sequence[str] | None) -> Sequence[str] | None:
    """Return the types of activities that a snapshot drops by leaving them out, None for all."""
    metadata = event.get("metadata", {})
    if "@ag-ui/client" not in metadata:
        return by_default
    declared = metadata["@ag-ui/client"]
    if not isinstance(declared, dict):
        return ()
    if "authoritativeActivityTypes" not in declared:
        return by_default
    types: list[str] | None = declared["authoritativeActivityTypes"]
    if types is None:
        return None
    return types if isinstance(types, list) and all(isinstance(item, str) for item in types) else ()
