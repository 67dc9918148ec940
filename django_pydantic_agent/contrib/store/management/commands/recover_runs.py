import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.recovery import LOOKS_PER_LEASE, Recovery
from django_pydantic_agent.stores import durable_store


class Command(BaseCommand):
    help = (
        "Ends the runs whose process is gone, or goes on with them, and executes those that nobody has begun. "
        "Every process that serves a mount does so too; this is for when none does."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--forever", action="store_true", help="go on looking until interrupted")

    def handle(self, *args: Any, forever: bool, **options: Any) -> None:
        store = durable_store()
        if store is None or store.leases is None:
            raise CommandError("The runs of this project are not kept in a database that processes share.")
        engine = get_engine()
        recovery = Recovery(engine, store)
        until = time.monotonic() + agent_settings.LEASE_SECONDS
        while True:
            is_last = not forever and time.monotonic() >= until
            recovery.look()
            if is_last:
                break
            time.sleep(agent_settings.LEASE_SECONDS / LOOKS_PER_LEASE)
        engine.wait()
        self.stdout.write(f"{recovery.ended} ended, {recovery.begun} begun, {recovery.resumed} resumed.")
