from typing import Any

from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.runs.request import RunRequest
from tests.approvals.agent import registry


async def no_looking(request: RunRequest, tool: str, arguments: dict[str, Any]) -> bool:
    return tool == "look" and request.user.username == "ada"


def mount(namespace: str, **keywords: Any) -> Any:
    keywords = {"step_store": DefaultStepStore, "conversation_store": DefaultConversationStore()} | keywords
    return path(f"{namespace}/", AGUIServer(registry, namespace=namespace, **keywords).urls)


urlpatterns = [
    mount("talk"),
    mount("bare", conversation_store=None),
    mount("plain", conversation_store=None, step_store=None),
    mount("strict", approval_policy=no_looking),
]
