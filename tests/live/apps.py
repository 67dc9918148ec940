from django.apps import AppConfig
from django.db.backends.signals import connection_created

from tests.live.statements import statements


class LiveConfig(AppConfig):
    name = "tests.live"
    label = "live"

    def ready(self) -> None:
        connection_created.connect(statements.watch)
