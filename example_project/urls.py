from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import path

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from example_project.notebook import views
from example_project.notebook.agent import model_for_request, registry

agent = AGUIServer(
    registry,
    model_for_request=model_for_request,
    step_store=DefaultStepStore,
    conversation_store=DefaultConversationStore(),
)

urlpatterns = [
    path("", views.page, name="page"),
    path("agent/", agent.urls),
    path("login/", views.DemoLoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
]
