from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.contrib.store.models import Run
from tests.browser.agent import registry


def thread_page(request: HttpRequest, mount: str, thread: str) -> HttpResponse:
    return page(request, mount, thread=thread)


def run_page(request: HttpRequest, mount: str, run: str) -> HttpResponse:
    return page(request, mount, thread=Run.objects.get(run_id=run).thread_id, run=run)


def page(request: HttpRequest, mount: str, **what: str) -> HttpResponse:
    """Show one conversation."""
    return render(request, "browser/page.html", {"mount": f"/{mount}/", "csrf": get_token(request), **what})


talk = AGUIServer(
    registry, namespace="talk", step_store=DefaultStepStore, conversation_store=DefaultConversationStore()
)
plain = AGUIServer(registry, namespace="plain", step_store=DefaultStepStore)

urlpatterns = [
    path("<str:mount>/ui/threads/<str:thread>/", thread_page),
    path("<str:mount>/ui/runs/<str:run>/", run_page),
    path("talk/", talk.urls),
    path("plain/", plain.urls),
]
