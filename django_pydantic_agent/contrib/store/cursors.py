"""Cursors of lists: places in an owner's rows that tell nobody what the keys of the rows are."""

from django.utils.crypto import constant_time_compare, salted_hmac

from django_pydantic_agent.contrib.store.identity import digest
from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.ownership import Owner

_DIGITS = 16


class Cursors:
    """Turns whole numbers of 64 bits into cursors of one list and of one owner in one scope, and back."""

    def __init__(self, name: str, owner: Owner, scope: str) -> None:
        self._salt = f"django_pydantic_agent.{name}_cursor"
        self._partition = digest(owner.key, scope)
        self._mask = int.from_bytes(self._hash("")[:8], "big")

    def text(self, *numbers: int) -> str:
        masked = "".join(f"{number ^ self._mask:0{_DIGITS}x}" for number in numbers)
        return masked + self._hash(" ".join(map(str, numbers))).hex()[:_DIGITS]

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a cursor. Raises `InvalidInput` where it is none of this list."""
        try:
            parts = [text[start : start + _DIGITS] for start in range(0, len(text) - _DIGITS, _DIGITS)]
            numbers = [int(part, 16) ^ self._mask for part in parts]
        except ValueError:
            numbers = []
        if not numbers or not constant_time_compare(text, self.text(*numbers)):
            raise InvalidInput("the cursor is not one that this server gave for this list")
        return numbers

    def _hash(self, text: str) -> bytes:
        return salted_hmac(self._salt, self._partition + text, algorithm="sha256").digest()
