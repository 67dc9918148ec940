"""A step store that is nobody's but this project's: records in dictionaries, one store for each user."""

from collections import defaultdict
from typing import Any


class DictStepStore:
    """The ten methods of the harness's protocol, and a count of the questions asked."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}
        self.events: defaultdict[str, list[Any]] = defaultdict(list)
        self.snapshots: defaultdict[str, list[Any]] = defaultdict(list)
        self.effects: dict[tuple[str, str], Any] = {}
        self.asked: list[str] = []

    async def register_run(self, record: Any) -> None:
        if self.runs.setdefault(record.run_id, record) is not record:
            raise ValueError(f"run {record.run_id!r} is registered")

    async def get_run(self, *, run_id: str) -> Any:
        return self.runs.get(run_id)

    async def list_runs(self, *, parent_run_id: str | None = None, conversation_id: str | None = None) -> list[Any]:
        return [
            record
            for record in self.runs.values()
            if parent_run_id in (None, record.parent_run_id) and conversation_id in (None, record.conversation_id)
        ]

    async def append_event(self, event: Any) -> None:
        self.events[event.run_id].append(event)

    async def list_events(self, *, run_id: str) -> list[Any]:
        return list(self.events[run_id])

    async def save_snapshot(self, snapshot: Any) -> None:
        self.snapshots[snapshot.run_id].append(snapshot)

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> Any:
        self.asked.append(run_id)
        found = [one for one in self.snapshots[run_id] if include_interrupted or one.state == "complete"]
        return found[-1] if found else None

    async def record_tool_effect(self, record: Any) -> None:
        self.effects[record.run_id, record.tool_call_id] = record

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> Any:
        return self.effects.get((run_id, tool_call_id))

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[Any]:
        return [one for one in self.effects.values() if one.run_id == run_id and one.status == "started"]


STORES: defaultdict[Any, DictStepStore] = defaultdict(DictStepStore)


def dict_step_store(request: Any) -> DictStepStore:
    """Return the store of the request's user."""
    return STORES[request.user.pk]
