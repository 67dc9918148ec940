import os
import signal

from django.urls import path
from pydantic_ai_harness.step_persistence import SqliteStepStore

from django_ag_ui import AGUIServer
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from django_pydantic_agent.runs.request import RunRequest
from tests.live.gates import count
from tests.recovery.agent import HeldAtTheEnd, HeldAtTheStart, registry


def foreign_step_store(request: object) -> SqliteStepStore:
    return SqliteStepStore(database=os.environ["FOREIGN_STEPS"])


def die(request: RunRequest) -> None:
    """Kill the process that prepares the run."""
    count(f"prepared {request.run_id}")
    os.kill(os.getpid(), signal.SIGKILL)


def title(request: RunRequest, messages: object) -> str:
    return f"titled by {request.run_id}"


conversations = DefaultConversationStore()
ledger = {"step_store": DefaultStepStore, "csrf_exempt": True}
talk = AGUIServer(registry, namespace="talk", conversation_store=conversations, **ledger)
plain = AGUIServer(registry, namespace="plain", **ledger)
resume = AGUIServer(registry, namespace="resume", conversation_store=conversations, on_orphan="resume", **ledger)
resume_plain = AGUIServer(registry, namespace="resume-plain", on_orphan="resume", **ledger)
resume_bare = AGUIServer(registry, namespace="resume-bare", on_orphan="resume", csrf_exempt=True)
resume_foreign = AGUIServer(
    registry, namespace="resume-foreign", on_orphan="resume", step_store=foreign_step_store, csrf_exempt=True
)
resume_held = AGUIServer(
    registry,
    namespace="resume-held",
    conversation_store=conversations,
    on_orphan="resume",
    capabilities=[HeldAtTheEnd],
    **ledger,
)
resume_answers = AGUIServer(
    registry,
    namespace="resume-answers",
    conversation_store=conversations,
    on_orphan="resume",
    capabilities=[HeldAtTheStart],
    **ledger,
)
titled = AGUIServer(
    registry,
    namespace="titled",
    conversation_store=conversations,
    on_orphan="resume",
    title_for_thread=title,
    **ledger,
)
deadly = AGUIServer(registry, namespace="deadly", model_for_request=die, **ledger)
deadly_resume = AGUIServer(
    registry,
    namespace="deadly-resume",
    conversation_store=conversations,
    model_for_request=die,
    on_orphan="resume",
    **ledger,
)

urlpatterns = [
    path("talk/", talk.urls),
    path("plain/", plain.urls),
    path("resume/", resume.urls),
    path("resume-plain/", resume_plain.urls),
    path("resume-bare/", resume_bare.urls),
    path("resume-foreign/", resume_foreign.urls),
    path("resume-held/", resume_held.urls),
    path("resume-answers/", resume_answers.urls),
    path("titled/", titled.urls),
    path("deadly/", deadly.urls),
    path("deadly-resume/", deadly_resume.urls),
]
