from django_pydantic_agent.contrib.store.admin.ledger import SnapshotAdmin, StepEventAdmin, ToolEffectAdmin
from django_pydantic_agent.contrib.store.admin.runs import RunAdmin

__all__ = ["RunAdmin", "SnapshotAdmin", "StepEventAdmin", "ToolEffectAdmin"]
