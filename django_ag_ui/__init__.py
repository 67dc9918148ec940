"""AG-UI over HTTP for Django: mount an agent, stream its runs, resume and fork them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_ag_ui.conf import build_ag_ui_config
    from django_ag_ui.disconnect import CancelAfter
    from django_ag_ui.lifespan import with_lifespan
    from django_ag_ui.server import AGUIServer, get_server
    from django_pydantic_agent.stores.scoped import ScopedConversationStore, ScopedStepStore

__all__ = [
    "AGUIServer",
    "CancelAfter",
    "ScopedConversationStore",
    "ScopedStepStore",
    "build_ag_ui_config",
    "get_server",
    "with_lifespan",
]

_HOMES = {
    "AGUIServer": "django_ag_ui.server",
    "CancelAfter": "django_ag_ui.disconnect",
    "ScopedConversationStore": "django_pydantic_agent.stores.scoped",
    "ScopedStepStore": "django_pydantic_agent.stores.scoped",
    "build_ag_ui_config": "django_ag_ui.conf",
    "get_server": "django_ag_ui.server",
    "with_lifespan": "django_ag_ui.lifespan",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
