from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import path

from django_ag_ui import AGUIServer, ScopedConversationStore, ScopedStepStore
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from example_project.notebook import agent, forester, views


def stores(scope: str) -> dict[str, object]:
    """Return stores that keep what is said to one agent apart from what is said to the other."""
    return {
        "step_store": ScopedStepStore(DefaultStepStore, scope=scope),
        "conversation_store": ScopedConversationStore(DefaultConversationStore(), scope=scope),
    }


botanist_server = AGUIServer(agent.registry, model_for_request=agent.model_for_request, **stores("botanist"))
forester_server = AGUIServer(
    forester.registry,
    model_for_request=forester.model_for_request,
    namespace="forester",
    **stores("forester"),
)

urlpatterns = [
    path("", views.page, name="page"),
    path("agent/", botanist_server.urls),
    path("forester/", forester_server.urls),
    path("login/", views.DemoLoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(template_name="notebook/logged_out.html"), name="logout"),
    path("admin/", admin.site.urls),
]
