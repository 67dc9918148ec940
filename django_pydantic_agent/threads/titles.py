"""Titles of threads, as they are stored."""

from django_pydantic_agent.exceptions import InvalidInput
from django_pydantic_agent.log.preview import one_line

TITLE_CHARACTERS = 1_000


def whole_title(title: str) -> str:
    """Return a title as it is stored. Raises `InvalidInput` where it is longer than `TITLE_CHARACTERS`."""
    if len(title) > TITLE_CHARACTERS:
        raise InvalidInput(f"a title has at most {TITLE_CHARACTERS} characters")
    return cut_title(title)


def cut_title(title: str) -> str:
    """Return a title as it is stored, cut where it is longer than `TITLE_CHARACTERS`."""
    return one_line(title, TITLE_CHARACTERS)
