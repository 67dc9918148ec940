from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.contrib.store.management.arguments import add_batches, days, days_ago
from django_pydantic_agent.contrib.store.management.output import counted
from django_pydantic_agent.contrib.store.retention import Tally, logs_to_prune, prune_logs, tidy_logs


class Command(BaseCommand):
    help = (
        "Drops the event logs of runs that ended longer ago than LOG_RETENTION_DAYS and brings logs into their "
        "resting form whose processes died before they did so. Runs, messages, steps, snapshots and effects stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than", type=days, metavar="DAYS", help="drop logs of runs that ended so many days ago"
        )
        add_batches(parser, of="stretches of a log", done="dropped")

    def handle(self, *args: Any, older_than: float | None, batch_size: int, dry_run: bool, **options: Any) -> None:
        age: float | None = agent_settings.LOG_RETENTION_DAYS if older_than is None else older_than
        tidied = Tally() if dry_run else tidy_logs()
        self._say(tidied, "tidied")
        if age is None:
            self.stdout.write("No log is dropped: neither LOG_RETENTION_DAYS nor --older-than says how old is too old.")
            pruned = Tally()
        else:
            ended_before = days_ago(age)
            if dry_run:
                self._say(logs_to_prune(ended_before=ended_before), "would be dropped")
                return
            pruned = prune_logs(ended_before=ended_before, stretches=batch_size)
            self._say(pruned, "dropped")
        if failed := tidied.failed + pruned.failed:
            raise CommandError(f"{counted(failed, 'log')} could not be dealt with; the log of this process says why.")

    def _say(self, tally: Tally, what: str) -> None:
        self.stdout.write(f"{counted(tally.logs, 'log')} with {counted(tally.events, 'event')} {what}.")
