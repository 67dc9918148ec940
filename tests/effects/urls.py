from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from tests.api.stores import dict_step_store
from tests.effects.agent import registry

talk = AGUIServer(
    registry, namespace="talk", step_store=DefaultStepStore, conversation_store=DefaultConversationStore()
)
strict = AGUIServer(registry, namespace="strict", step_store=DefaultStepStore, refuse_unresolved=True)
foreign = AGUIServer(registry, namespace="foreign", step_store=dict_step_store)

urlpatterns = [path("talk/", talk.urls), path("strict/", strict.urls), path("foreign/", foreign.urls)]
