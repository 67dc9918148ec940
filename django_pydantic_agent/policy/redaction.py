"""Short texts of data for people who look after runs, without what its keys name as secret."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.log.frames import safe_text, storable_value

logger = logging.getLogger(__name__)

HIDDEN = "[redacted]"
CUT = "…"


def short_text(value: Any) -> str:
    """Return `value` as JSON of at most EFFECT_PREVIEW_CHARACTERS, cut behind that; empty where it has no such form.

    What stands under a key that holds one of REDACTED_KEYS is hidden at any depth. Numbers keep all their digits.
    """
    limit = int(agent_settings.EFFECT_PREVIEW_CHARACTERS)
    if not limit:
        return ""
    try:
        data = _Excerpt(limit + 1).of(value)
        text = to_json(storable_value(data), inf_nan_mode="null", fallback=safe_text).decode()
    except Exception:
        logger.warning("A %s cannot be shown in the ledger.", type(value).__name__, exc_info=True)
        return ""
    return text if len(text) <= limit else text[: limit - len(CUT)] + CUT


class _Excerpt:
    """Copies as much of a value as fits into a number of characters, so that large data costs no more than small."""

    def __init__(self, characters: int) -> None:
        self._left = characters
        self._secret = [_plain(key) for key in agent_settings.REDACTED_KEYS]

    def of(self, value: Any) -> Any:
        self._left -= 1
        match value:
            case str():
                return self._text(value)
            case bool() | int() | float() | None:
                return value
            case bytes() | bytearray() | memoryview():
                return self._text(f"[{len(value)} bytes]")
            case Mapping():
                copy = {}
                for key, item in value.items():
                    if self._left <= 0:
                        break
                    name = self._text(safe_text(key))
                    copy[name] = HIDDEN if self._is_secret(key) else self.of(item)
                return copy
            case list() | tuple() | set() | frozenset():
                items = []
                for item in value:
                    if self._left <= 0:
                        break
                    items.append(self.of(item))
                return items
        if isinstance(content := getattr(value, "data", None), bytes):
            return self.of(content)
        return self.of(to_jsonable_python(value, fallback=safe_text, bytes_mode="base64"))

    def _text(self, text: str) -> str:
        kept = text[: max(self._left, 0)]
        self._left -= len(kept)
        return kept

    def _is_secret(self, key: Any) -> bool:
        name = _plain(safe_text(key))
        return any(secret in name for secret in self._secret)


def _plain(key: str) -> str:
    """Return a key as it compares: `apiKey`, `API-Key` and `api_key` are one."""
    return key.lower().replace("-", "").replace("_", "")
