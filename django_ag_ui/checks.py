"""System checks of the mounts; docs/reference/checks.md lists them."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from django_ag_ui.conf import SETTING, is_known, unknown_settings, value_fault
from django_pydantic_agent.conf import SETTING as AGENT_SETTING
from django_pydantic_agent.conf import STORE_APP, agent_settings

if TYPE_CHECKING:
    from django_ag_ui.server import AGUIServer

AUTHENTICATION_MIDDLEWARE = "django.contrib.auth.middleware.AuthenticationMiddleware"

# The keywords that REST framework's settings stand in for.
_POLICIES = {
    "authentication_classes": "DEFAULT_AUTHENTICATION_CLASSES",
    "permission_classes": "DEFAULT_PERMISSION_CLASSES",
    "throttle_classes": "DEFAULT_THROTTLE_CLASSES",
}


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the keys and values of `DJANGO_AG_UI`."""
    values = getattr(settings, SETTING, {})
    if not isinstance(values, dict):
        return [Error(f"{SETTING} must be a dictionary.", id="django_ag_ui.E001")]
    unknown = [
        Error(f"{SETTING} has no key {key!r}{hint or '.'}", id="django_ag_ui.E002")
        for key, hint in unknown_settings(values)
    ]
    unusable = [
        Error(f"{SETTING}[{key!r}] {fault}.", id="django_ag_ui.E003")
        for key, value in values.items()
        if is_known(key) and (fault := value_fault(key.lower(), value)) is not None
    ]
    return [*unknown, *unusable]


@register(Tags.urls)
def check_servers(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that every mounted server can be found by its namespace and has what it needs."""
    from django_ag_ui.server import AGUIServer, mounted_servers

    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    by_namespace: dict[str, list[AGUIServer]] = {}
    for server in mounted_servers():
        namesakes = by_namespace.setdefault(server.namespace, [])
        if server not in namesakes:
            namesakes.append(server)
    shared = [
        Error(
            f"{len(namesakes)} AGUIServers share the namespace {namespace!r}.",
            hint="Give each its own: AGUIServer(..., namespace='support').",
            id="django_ag_ui.E004",
        )
        for namespace, namesakes in by_namespace.items()
        if len(namesakes) > 1
    ]
    lacking = [
        Error(
            f"The AGUIServer {namespace!r} has a step store, but pydantic-ai-harness is not installed.",
            hint="pip install 'django-ag-ui[harness]'",
            id="django_ag_ui.E005",
        )
        for namespace, namesakes in by_namespace.items()
        if any(server.step_store for server in namesakes) and find_spec("pydantic_ai_harness") is None
    ]
    in_memory = [
        Warning(
            f"Runs live in the memory of one process: {STORE_APP} is not installed.",
            hint=f"Add {STORE_APP!r} to INSTALLED_APPS and run migrate.",
            id="django_ag_ui.W001",
        )
    ]
    homeless = [
        Error(
            f"The AGUIServer {namespace!r} keeps its steps or conversations in {STORE_APP}, which is not installed.",
            hint=f"Add {STORE_APP!r} to INSTALLED_APPS and run migrate.",
            id="django_ag_ui.E006",
        )
        for namespace, namesakes in by_namespace.items()
        if not apps.is_installed(STORE_APP) and any(map(_needs_store_app, namesakes))
    ]
    faults = [fault for namesakes in by_namespace.values() for server in namesakes for fault in _server_faults(server)]
    memory = in_memory if by_namespace and not apps.is_installed(STORE_APP) else []
    return [*shared, *lacking, *homeless, *faults, *memory]


@register(Tags.security, deploy=True)
def check_csrf(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that no mount takes a browser's cookies without a CSRF check."""
    from django_ag_ui.server import mounted_servers

    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    return [
        Warning(
            f"The AGUIServer {server.namespace!r} is exempt from the CSRF check and knows users by their session.",
            hint="Leave csrf_exempt out, or give authentication_classes that take no cookies.",
            id="django_ag_ui.W003",
        )
        for server in mounted_servers()
        if server.csrf_exempt and server.get_user is None and any(map(_is_session_borne, _authenticators(server)))
    ]


def _server_faults(server: "AGUIServer") -> Iterator[CheckMessage]:
    """Yield what keeps a mount from answering any request."""
    name = server.namespace
    executors = agent_settings.EXECUTORS if isinstance(getattr(settings, AGENT_SETTING, {}), dict) else None
    if isinstance(executors, dict) and server.agent_config.executor not in executors:
        yield Error(
            f"The AGUIServer {name!r} names the executor {server.agent_config.executor!r}, which does not exist.",
            hint=f"Add it to {AGENT_SETTING}['EXECUTORS'], or name one of {', '.join(map(repr, executors))}.",
            id="django_ag_ui.E007",
        )
    for argument, setting in _POLICIES.items():
        try:
            for item in _classes(server, argument):
                item()
        except (ImportError, ImproperlyConfigured, TypeError) as error:
            yield Error(
                f"The AGUIServer {name!r} cannot use its {argument}: {error}",
                hint=f"See the keyword {argument} and REST_FRAMEWORK[{setting!r}].",
                id="django_ag_ui.E008",
            )
    if (
        server.require_authenticated
        and server.get_user is None
        and AUTHENTICATION_MIDDLEWARE not in settings.MIDDLEWARE
        and (authenticators := _authenticators(server))
        and all(map(_is_session_borne, authenticators))
    ):
        yield Warning(
            f"The AGUIServer {name!r} refuses everybody: users are known by their session, and MIDDLEWARE has no "
            f"{AUTHENTICATION_MIDDLEWARE}.",
            hint="Add it, or give authentication_classes or get_user.",
            id="django_ag_ui.W002",
        )


def _classes(server: "AGUIServer", argument: str) -> Sequence[Any]:
    from rest_framework.settings import api_settings

    own: Sequence[Any] | None = getattr(server, argument)
    return own if own is not None else getattr(api_settings, _POLICIES[argument])


def _authenticators(server: "AGUIServer") -> Sequence[Any]:
    """Return the classes by which a mount knows its users, none where they cannot be imported."""
    try:
        return _classes(server, "authentication_classes")
    except ImportError:
        return []


def _is_session_borne(authenticator: Any) -> bool:
    from rest_framework.authentication import SessionAuthentication

    return isinstance(authenticator, type) and issubclass(authenticator, SessionAuthentication)


def _needs_store_app(server: "AGUIServer") -> bool:
    stores = [getattr(store, "factory", store) for store in (server.step_store, server.conversation_store)]
    homes = [getattr(store, "__module__", "") for store in stores]
    return any(home.startswith(STORE_APP) for home in homes)
