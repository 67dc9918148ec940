from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from tests.browser.agent import registry

talk = AGUIServer(
    registry, namespace="talk", step_store=DefaultStepStore, conversation_store=DefaultConversationStore()
)
plain = AGUIServer(registry, namespace="plain", step_store=DefaultStepStore)

urlpatterns = [
    # A browser asks for one where a page names none, and reports a 404 as an error of the page.
    path("favicon.ico", lambda request: HttpResponse(status=204)),
    path("admin/", admin.site.urls),
    path("talk/", talk.urls),
    path("plain/", plain.urls),
]
