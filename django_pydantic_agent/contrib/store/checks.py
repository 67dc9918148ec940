"""System checks of the database that runs are kept in; docs/reference/checks.md lists them."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import connections, router

from django_pydantic_agent.conf import STORE_APP


@register
def check_database(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the store's models are kept together, on a database that several threads can write to."""
    if not apps.is_installed(STORE_APP):
        return []
    models = apps.get_app_config("django_pydantic_agent_store").get_models()
    aliases = sorted({router.db_for_write(model) for model in models})
    if len(aliases) > 1:
        return [
            Error(
                f"The models of django_pydantic_agent.contrib.store are written to {' and '.join(aliases)}.",
                hint="Have DATABASE_ROUTERS keep the app in one database: its transactions span its models.",
                id="django_pydantic_agent_store.E001",
            )
        ]
    connection = connections[aliases[0]]
    mode = str(connection.settings_dict.get("OPTIONS", {}).get("transaction_mode") or "DEFERRED").upper()
    if connection.vendor != "sqlite" or mode != "DEFERRED":
        return []
    return [
        Warning(
            f"Transactions on the SQLite database {aliases[0]!r} are DEFERRED, so parallel runs find it locked.",
            hint="Set OPTIONS to {'transaction_mode': 'IMMEDIATE', 'timeout': 20}.",
            id="django_pydantic_agent_store.W001",
        )
    ]
