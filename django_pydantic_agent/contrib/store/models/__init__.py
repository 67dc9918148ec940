from django_pydantic_agent.contrib.store.models.approvals import Interrupt
from django_pydantic_agent.contrib.store.models.history import HistoryMessage
from django_pydantic_agent.contrib.store.models.ledger import Snapshot, StepEvent, ToolEffect
from django_pydantic_agent.contrib.store.models.runs import Run, RunFrames
from django_pydantic_agent.contrib.store.models.threads import Thread, ThreadMessage

__all__ = [
    "HistoryMessage",
    "Interrupt",
    "Run",
    "RunFrames",
    "Snapshot",
    "StepEvent",
    "Thread",
    "ThreadMessage",
    "ToolEffect",
]
