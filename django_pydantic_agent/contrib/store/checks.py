"""System checks of the database that runs are kept in; docs/reference/checks.md lists them."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

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


@register(Tags.database)
def check_character_set(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that MariaDB or MySQL takes every character: asks the database, so only where that is named."""
    if not apps.is_installed(STORE_APP):
        return []
    models = list(apps.get_app_config("django_pydantic_agent_store").get_models())
    aliases = {router.db_for_write(model) for model in models}.intersection(databases or ())
    tables = [model._meta.db_table for model in models]
    return [
        Warning(
            f"The MySQL database {alias!r} has no room for every character: {', '.join(narrow)}.",
            hint="Use utf8mb4: OPTIONS={'charset': 'utf8mb4'}, ALTER DATABASE, and for each table ALTER TABLE ... "
            "CONVERT TO CHARACTER SET utf8mb4. A run that says more, such as an emoji, fails.",
            id="django_pydantic_agent_store.W002",
        )
        for alias in sorted(aliases)
        if connections[alias].vendor == "mysql" and (narrow := _narrow(connections[alias], tables))
    ]


def _narrow(connection: BaseDatabaseWrapper, tables: Sequence[str]) -> list[str]:
    """Return where the character set is not utf8mb4: in the connection, in tables, and where these will be made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@character_set_client, @@character_set_database")
        client, database = cursor.fetchone()
        cursor.execute(
            "SELECT DISTINCT table_name, character_set_name FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND character_set_name IS NOT NULL AND table_name IN %s"
            " ORDER BY table_name, character_set_name",
            [tuple(tables)],
        )
        columns = cursor.fetchall()
    places = [("the connection", client)]
    # What is there counts; the default of the database is for tables that are yet to be made.
    places += [(f"the table {table}", name) for table, name in columns] or [("the database", database)]
    return [f"{place} has {name}" for place, name in places if name != "utf8mb4"]
