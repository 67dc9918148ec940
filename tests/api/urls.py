from typing import Any

from django.contrib.auth.models import User
from django.urls import include, path
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from django_ag_ui import AGUIServer, ScopedConversationStore, ScopedStepStore
from django_pydantic_agent.contrib.store.default_conversation_store import DefaultConversationStore
from django_pydantic_agent.contrib.store.default_step_store import DefaultStepStore
from tests.api.agents import Hook, registry
from tests.api.stores import dict_step_store

get_user, authorize, context, title = Hook(), Hook(), Hook(), Hook()


def anonymous_step_store(request: Any) -> DefaultStepStore:
    return DefaultStepStore(request, allow_anonymous=True)


class HeaderAuthentication(BaseAuthentication):
    """Authenticate who names a user in the Authorization header."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        kind, _, name = request.headers.get("Authorization", "").partition(" ")
        if kind != "Name":
            return None
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise AuthenticationFailed
        return user, name

    def authenticate_header(self, request: Request) -> str:
        return "Name"


class CookieAuthentication(BaseAuthentication):
    """Authenticate whom a cookie of the project's own names."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        user = User.objects.filter(username=request.COOKIES.get("login", "")).first()
        return user and (user, None)


def server(namespace: str, **keywords: Any) -> tuple[Any, str, str]:
    return AGUIServer(registry, namespace=namespace, **keywords).urls


def talk(namespace: str, **keywords: Any) -> tuple[Any, str, str]:
    """Return a mount that keeps conversations."""
    stores = {"step_store": DefaultStepStore, "conversation_store": DefaultConversationStore()}
    return server(namespace, **(stores | keywords))


urlpatterns = [
    path("agent/", server("ag_ui", step_store=DefaultStepStore, context_for_request=context)),
    path("exempt/", server("exempt", step_store=DefaultStepStore, csrf_exempt=True)),
    path("foreign/", server("foreign", step_store=dict_step_store)),
    path("scoped/", server("scoped", step_store=ScopedStepStore(DefaultStepStore, scope="a"))),
    path("scoped-foreign/", server("scoped_foreign", step_store=ScopedStepStore(dict_step_store, scope="a"))),
    path("public/", server("public", step_store=anonymous_step_store, require_authenticated=False)),
    path("ephemeral/", server("ephemeral", step_store=DefaultStepStore, require_authenticated=False)),
    path("plain/", server("plain")),
    path("hooked/", server("hooked", step_store=DefaultStepStore, get_user=get_user, authorize=authorize)),
    path(
        "token/",
        server(
            "token", step_store=DefaultStepStore, authentication_classes=[HeaderAuthentication, SessionAuthentication]
        ),
    ),
    path("cookie/", server("cookie", step_store=DefaultStepStore, authentication_classes=[CookieAuthentication])),
    path("watched/", server("watched", step_store=DefaultStepStore, on_client_disconnect="cancel")),
    path("talk/", talk("talk")),
    path("talk-titled/", talk("talk_titled", title_for_thread=title)),
    path("talk-plain/", talk("talk_plain", step_store=None)),
    path("talk-reject/", talk("talk_reject", on_concurrent_run="reject")),
    path("talk-interrupt/", talk("talk_interrupt", on_concurrent_run="interrupt")),
    path("talk-rollback/", talk("talk_rollback", on_concurrent_run="rollback")),
    path("talk-attach/", talk("talk_attach", on_concurrent_run="attach")),
    path("talk-strict/", talk("talk_strict", on_stale_client="reject")),
    path("talk-importing/", talk("talk_importing", client_history="import")),
    path("talk-halves/", talk("talk_halves", require_authenticated=False, step_store=anonymous_step_store)),
    path("talk-members/", talk("talk_members", require_authenticated=False)),
    path(
        "talk-guests/",
        talk(
            "talk_guests",
            require_authenticated=False,
            step_store=anonymous_step_store,
            conversation_store=DefaultConversationStore(allow_anonymous=True),
        ),
    ),
    path(
        "talk-scoped/",
        talk(
            "talk_scoped",
            step_store=ScopedStepStore(DefaultStepStore, scope="a"),
            conversation_store=ScopedConversationStore(DefaultConversationStore(), scope="a"),
        ),
    ),
    path("teams/<slug:team>/", include(([path("agent/", server("team", step_store=DefaultStepStore))], "teams"))),
]
