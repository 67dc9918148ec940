"""How the conformance suite's runs are made in the database."""

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.models import Run
from django_pydantic_agent.contrib.store.run_store import new_row
from django_pydantic_agent.runs.states import RunStatus
from django_pydantic_agent.stores.conversations import ConversationStore, TurnSave, TurnStart
from django_pydantic_agent.stores.writes import Ending
from django_pydantic_agent.testing.conversation_store import ConversationStoreConformance


class DatabaseConversations(ConversationStoreConformance):
    """The suite with runs that are rows of the store app."""

    def make_store(self) -> ConversationStore:
        return DefaultConversationStore()

    def make_run(self, start: TurnStart, run_id: str) -> int:
        row = new_row(
            start.owner,
            "",
            run_id=run_id,
            thread_id=start.thread_id,
            status=RunStatus.QUEUED,
            created_at=datetime.now(UTC),
        )
        row.save(force_insert=True)
        return row.pk

    def end_run(self, store: ConversationStore, saved: TurnSave, ending: Ending) -> int:
        Run.objects.filter(pk=saved.run).update(status=ending.status)
        return super().end_run(store, saved, ending)

    def transaction(self) -> AbstractContextManager[Any]:
        return transaction.atomic()
