"""System checks of the mounts; docs/reference/checks.md lists them."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from django_ag_ui.conf import SETTING, is_known, unknown_settings, value_fault
from django_pydantic_agent.conf import STORE_APP

if TYPE_CHECKING:
    from django_ag_ui.server import AGUIServer


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
    return [*shared, *lacking, *homeless, *(in_memory if by_namespace and not apps.is_installed(STORE_APP) else [])]


def _needs_store_app(server: "AGUIServer") -> bool:
    stores = [getattr(store, "factory", store) for store in (server.step_store, server.conversation_store)]
    homes = [getattr(store, "__module__", "") for store in stores]
    return any(home.startswith(STORE_APP) for home in homes)
