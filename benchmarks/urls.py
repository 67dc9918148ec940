from django.urls import path

from benchmarks.agents import agent
from benchmarks.views import FromMemoryView, OneFrameView, PlainListView
from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore

durable = AGUIServer(agent, step_store=DefaultStepStore)
# A run of an anonymous request is kept in memory only.
unpersisted = AGUIServer(agent, namespace="unpersisted", require_authenticated=False, csrf_exempt=True)

urlpatterns = [
    path("agent/", durable.urls),
    path("unpersisted/", unpersisted.urls),
    path("one-frame/", OneFrameView.as_view()),
    path("from-memory/<str:run>/", FromMemoryView.as_view()),
    path("plain-list/", PlainListView.as_view()),
]
