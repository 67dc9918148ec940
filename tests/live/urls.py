"""The mounts of these tests, and pages that tell what goes on in a server process."""

import asyncio
import threading
from typing import Any

import psutil
from asgiref.sync import sync_to_async
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils.functional import SimpleLazyObject

from django_ag_ui import AGUIServer, CancelAfter, build_ag_ui_config
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from tests.live.agent import registry
from tests.live.statements import statements

KEEP_ALIVE_SECONDS = 0.2


def anonymous_step_store(request: Any) -> DefaultStepStore:
    return DefaultStepStore(request, allow_anonymous=True)


async def get_lazy_user(request: HttpRequest) -> Any:
    user = request.user
    return SimpleLazyObject(lambda: user)


async def is_not_blocked(request: HttpRequest) -> bool:
    return not await sync_to_async(request.user.groups.filter(name="blocked").exists)()


def mount(namespace: str, **keywords: Any) -> Any:
    server = AGUIServer(registry, namespace=namespace, **{"step_store": DefaultStepStore, **keywords})
    return path(f"{namespace}/", server.urls)


def probe(request: HttpRequest) -> JsonResponse:
    """Tell how many statements this process has sent to the database, and what it takes of the machine."""
    memory = psutil.Process().memory_info().rss
    return JsonResponse({"statements": statements.number, "memory": memory, "threads": threading.active_count()})


async def tasks(request: HttpRequest) -> JsonResponse:
    """Tell how many tasks the server's event loop has, and how many of them are Django's."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return JsonResponse({"all": len(names), "django": sum(name.startswith("ASGIHandler.") for name in names)})


urlpatterns = [
    mount("agent"),
    mount("chatty", config=build_ag_ui_config(keep_alive_seconds=KEEP_ALIVE_SECONDS)),
    mount("plain", step_store=None),
    mount("talk", conversation_store=DefaultConversationStore()),
    mount("strict", on_client_disconnect="cancel"),
    mount("patient", on_client_disconnect=CancelAfter(3)),
    mount("asked", client_disconnect_choices=("cancel",)),
    mount("brief", on_client_disconnect="cancel", config=build_ag_ui_config(max_stream_seconds=1)),
    mount("public", step_store=anonymous_step_store, require_authenticated=False),
    mount("hooked", get_user=get_lazy_user, authorize=is_not_blocked),
    path("login/", LoginView.as_view(next_page="/probe/")),
    path("logout/", LogoutView.as_view(next_page="/probe/")),
    path("probe/", probe),
    path("tasks/", tasks),
]
