"""An agent whose tools use the database, synchronously and not."""

from django.contrib.auth.models import User
from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent import ToolRegistry
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.testing.models import ScriptedModel, ToolCall

registry = ToolRegistry()


@registry.tool
def make_user(username: str) -> str:
    User.objects.create(username=username)
    return "made"


@registry.tool
async def list_users() -> str:
    return ",".join([name async for name in User.objects.order_by("pk").values_list("username", flat=True)])


model = ScriptedModel(
    [
        [ToolCall("make_user", {"username": "by-tool"})],
        [ToolCall("list_users")],
        lambda messages: [f"Users: {messages[-1].parts[0].content}"],
    ]
)

server = AGUIServer(registry, model=model, step_store=DefaultStepStore)

urlpatterns = [path("agent/", server.urls)]
