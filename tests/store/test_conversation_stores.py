"""The conformance suite on each store: over the project's database, scoped, and in memory."""

from typing import Any

from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings

from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.stores.memory_conversations import MemoryConversationStore
from django_pydantic_agent.stores.scoped import ScopedConversationStore
from django_pydantic_agent.testing.conversation_store import ConversationStoreConformance
from tests.store.conversations import DatabaseConversations


class Foreign:
    """A store of somebody else, which knows of no scopes."""

    def __init__(self) -> None:
        self._store = MemoryConversationStore()

    def __getattr__(self, name: str) -> Any:
        if name == "scoped":
            raise AttributeError(name)
        return getattr(self._store, name)


class TestDefaultConversationStore(DatabaseConversations, TransactionTestCase):
    pass


class TestScopedDefaultConversationStore(DatabaseConversations, TestCase):
    """Scoped, and inside a transaction of the caller's."""

    def make_store(self) -> ScopedConversationStore:
        return ScopedConversationStore(DefaultConversationStore(), scope="mount")


@override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
class TestC35WithoutTimeZones(DatabaseConversations, TestCase):
    pass


class TestMemoryConversationStore(ConversationStoreConformance, SimpleTestCase):
    def make_store(self) -> MemoryConversationStore:
        return MemoryConversationStore()


class TestScopedMemoryConversationStore(ConversationStoreConformance, SimpleTestCase):
    def make_store(self) -> ScopedConversationStore:
        return ScopedConversationStore(MemoryConversationStore(), scope="mount")


class TestScopedForeignConversationStore(ConversationStoreConformance, SimpleTestCase):
    """Ids that carry the scope, in a store where other scopes have threads too."""

    def make_store(self) -> ScopedConversationStore:
        foreign = Foreign()
        for other in (foreign, ScopedConversationStore(foreign, scope="other")):
            self.turn(other, "x1", "y1", thread_id="another")
        return ScopedConversationStore(foreign, scope="mount")
