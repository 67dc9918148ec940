"""The way from the name of a mount to how its runs are made, for runs that another process has accepted."""

from collections.abc import Callable
from dataclasses import dataclass

from django_pydantic_agent.runs.plan import AgentConfig
from django_pydantic_agent.stores.conversations import ConversationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """How the runs of one mount are made, and where its threads are kept."""

    config: AgentConfig
    conversation: ConversationStore | None = None


_lookups: list[Callable[[str], Mount]] = []


def register_lookup(lookup: Callable[[str], Mount]) -> None:
    """Have `find_mount` ask `lookup`, which raises `LookupError` for a name that it does not know."""
    if lookup not in _lookups:
        _lookups.append(lookup)


def find_mount(name: str) -> Mount:
    """Return the mount of this name; raises `LookupError` where nobody knows it."""
    for lookup in _lookups:
        try:
            return lookup(name)
        except LookupError:
            continue
    raise LookupError(f"there is no mount of the name {name!r}")
