"""The ids of tool calls on the wire, and those that the model gave them."""

import re

_NUMBER = re.compile(r"~\d+$")


def model_id(wire_id: str) -> str:
    """Return the id that the model gave a call, or another one that would be the same on the wire."""
    return _NUMBER.sub("", wire_id)
