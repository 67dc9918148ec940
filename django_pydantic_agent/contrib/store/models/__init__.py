from django_pydantic_agent.contrib.store.models.history import HistoryMessage
from django_pydantic_agent.contrib.store.models.ledger import Snapshot, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.models.runs import Run, RunFrames

__all__ = ["HistoryMessage", "Run", "RunFrames", "Snapshot", "StepEvent", "ToolEffect"]
