from django_pydantic_agent.contrib.store.admin.effects import ToolEffectAdmin
from django_pydantic_agent.contrib.store.admin.ledger import InterruptAdmin, SnapshotAdmin, StepEventAdmin
from django_pydantic_agent.contrib.store.admin.runs import RunAdmin
from django_pydantic_agent.contrib.store.admin.threads import ThreadAdmin

__all__ = ["InterruptAdmin", "RunAdmin", "SnapshotAdmin", "StepEventAdmin", "ThreadAdmin", "ToolEffectAdmin"]
