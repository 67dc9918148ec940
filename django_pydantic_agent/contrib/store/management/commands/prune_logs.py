from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.contrib.store.retention import Tally, logs_to_prune, prune_logs, tidy_logs

MOST_DAYS = 36_500


class Command(BaseCommand):
    help = (
        "Drops the event logs of runs that ended longer ago than LOG_RETENTION_DAYS and brings logs into their "
        "resting form whose processes died before they did so. Runs, messages, steps, snapshots and effects stay."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than", type=_days, metavar="DAYS", help="drop logs of runs that ended so many days ago"
        )
        parser.add_argument(
            "--batch-size", type=_above_zero, default=100, metavar="N", help="stretches of a log per transaction (100)"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say how much would be dropped")

    def handle(self, *args: Any, older_than: float | None, batch_size: int, dry_run: bool, **options: Any) -> None:
        days: float | None = agent_settings.LOG_RETENTION_DAYS if older_than is None else older_than
        tidied = Tally() if dry_run else tidy_logs()
        self._say(tidied, "tidied")
        if days is None:
            self.stdout.write("No log is dropped: neither LOG_RETENTION_DAYS nor --older-than says how old is too old.")
            pruned = Tally()
        else:
            ended_before = datetime.now(UTC) - timedelta(days=min(days, MOST_DAYS))
            if dry_run:
                self._say(logs_to_prune(ended_before=ended_before), "would be dropped")
                return
            pruned = prune_logs(ended_before=ended_before, stretches=batch_size)
            self._say(pruned, "dropped")
        if failed := tidied.failed + pruned.failed:
            raise CommandError(f"{failed} logs could not be dealt with; the log of this process says why.")

    def _say(self, tally: Tally, what: str) -> None:
        self.stdout.write(f"{tally.logs} logs with {tally.events} events {what}.")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days <= MOST_DAYS:
        raise ArgumentTypeError(f"{text!r} is not a number of days from 0 to {MOST_DAYS}")
    return days


def _above_zero(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number
