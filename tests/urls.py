from django.contrib import admin
from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore

agent = AGUIServer(
    ToolRegistry(model="test"), step_store=DefaultStepStore, conversation_store=DefaultConversationStore()
)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("agent/", agent.urls),
]
