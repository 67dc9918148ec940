"""A message and a tool call of a transcript, as events build them up."""

from pydantic_core import to_json

from django_pydantic_agent.log.document import Document
from django_pydantic_agent.log.frames import JsonObject


class _Built:
    """`fields` are its JSON; `deltas` are yet to be joined to the text in it, which is done when somebody asks."""

    __slots__ = ("deltas", "fields")

    def __init__(self, fields: JsonObject) -> None:
        self.fields = dict(fields)
        self.deltas: list[str] = []

    def merge_metadata(self, source: JsonObject) -> bool:
        """Take over the metadata of an event, key by key; tell whether it has any."""
        if "metadata" not in source:
            return False
        self.fields["metadata"] = {**self.fields.get("metadata", {}), **source["metadata"]}
        return True

    def _join_to(self, holder: JsonObject, key: str) -> None:
        if self.deltas:
            text = holder.get(key)
            holder[key] = (text if isinstance(text, str) else "") + "".join(self.deltas)
            self.deltas.clear()


class Call(_Built):
    """A tool call of an assistant message."""

    __slots__ = ("entry", "function", "id")

    def __init__(self, fields: JsonObject, entry: "Entry") -> None:
        super().__init__(fields)
        self.id: str = fields["id"]
        self.entry = entry
        self.function: JsonObject = dict(fields["function"])

    def as_json(self) -> JsonObject:
        self._join_to(self.function, "arguments")
        return {**self.fields, "function": dict(self.function)}


class Entry(_Built):
    """A message; the content of an activity is its `document`, the tool calls of an assistant message are `calls`."""

    __slots__ = ("calls", "document", "id", "role")

    def __init__(self, fields: JsonObject) -> None:
        super().__init__(fields)
        self.id: str = fields["id"]
        self.role: str = fields["role"]
        self.document: Document | None = None
        if self.role == "activity":
            self.document = Document(self.fields.pop("content"), stays_object=True)
        calls = self.fields.pop("toolCalls", None)
        self.calls = None if calls is None else [Call(call, self) for call in calls]

    def add_call(self, call_id: str, name: str) -> Call:
        call = Call({"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}, self)
        self.calls = [] if self.calls is None else self.calls
        self.calls.append(call)
        return call

    def as_json(self) -> JsonObject:
        """Return the message; what happens to it later leaves the answer alone."""
        self._join_to(self.fields, "content")
        message = dict(self.fields)
        if self.document is not None:
            message["content"] = self.document.value
        if self.calls is not None:
            message["toolCalls"] = [call.as_json() for call in self.calls]
        return message

    def equals(self, other: "Entry") -> bool:
        return self is other or to_json(self.as_json()) == to_json(other.as_json())
