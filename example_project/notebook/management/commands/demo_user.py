from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

DEMO_USERNAME = "demo"


class Command(BaseCommand):
    help = "Create the user demo, password demo, who may use the admin. While DEBUG is on, the login page logs it in."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("demo_user makes an administrator with a known password; it needs DEBUG.")
        users = get_user_model().objects
        if users.filter(username=DEMO_USERNAME).exists():
            self.stdout.write("The user demo is there already.")
            return
        users.create_superuser(username=DEMO_USERNAME, password=DEMO_USERNAME)
        self.stdout.write("Created the user demo, password demo.")
