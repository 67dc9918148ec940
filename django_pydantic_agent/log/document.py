"""A JSON document that JSON Patch changes."""

from collections.abc import Sequence
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointerException
from pydantic_core import from_json, to_json

from django_pydantic_agent.log.frames import JsonObject

# To AG-UI clients, what is left of a document that was removed is null.
_REMOVAL = {"op": "remove", "path": ""}
_NULLED = {"op": "replace", "path": "", "value": None}


class Document:
    """A JSON value. Patches change it in place, or a copy of it once it has been handed out.

    With `stays_object`, a patch that makes anything else of it cannot be applied.
    """

    __slots__ = ("_handed_out", "_stays_object", "_value")

    def __init__(self, value: Any, *, stays_object: bool = False) -> None:
        self._value = value
        self._handed_out = True
        self._stays_object = stays_object

    @property
    def value(self) -> Any:
        """The document as it is now; later patches leave what was returned alone."""
        self._handed_out = True
        return self._value

    def patch(self, operations: Sequence[JsonObject]) -> bool:
        """Apply all operations (RFC 6902), or none of them where one cannot be applied; tell which."""
        patch = JsonPatch(_NULLED if operation == _REMOVAL else operation for operation in operations)
        replaces = self._stays_object and any(operation["path"] == "" for operation in operations)
        value = from_json(to_json(self._value)) if self._handed_out or replaces else self._value
        try:
            value = patch.apply(value, in_place=True, atomic=True)
        except (JsonPatchException, JsonPointerException):
            return False
        if self._stays_object and not isinstance(value, dict):
            return False
        self._value = value
        self._handed_out = False
        return True
