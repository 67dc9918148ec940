from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.contrib.store.management.arguments import add_batches, days, days_ago
from django_pydantic_agent.contrib.store.management.output import counted
from django_pydantic_agent.contrib.store.pruning import Pruner, PruneRule


class Command(BaseCommand):
    help = (
        "Deletes the threads in which the last run ended long ago, and such runs outside of threads, with all that "
        "belongs to them. Live runs stay, and so do, unless it is told otherwise, those that wait for an answer or "
        "have a tool effect whose outcome nobody knows."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=days, metavar="DAYS", help="prune what ended so many days ago")
        parser.add_argument(
            "--anonymous-older-than",
            type=days,
            metavar="DAYS",
            help="prune what anonymous visitors have that ended so many days ago",
        )
        parser.add_argument("--include-waiting", action="store_true", help="prune what waits for an answer, too")
        parser.add_argument(
            "--include-unresolved", action="store_true", help="prune what has effects of unknown outcome, too"
        )
        add_batches(parser, of="runs outside of threads", done="pruned")

    def handle(
        self,
        *args: Any,
        older_than: float | None,
        anonymous_older_than: float | None,
        include_waiting: bool,
        include_unresolved: bool,
        batch_size: int,
        dry_run: bool,
        **options: Any,
    ) -> None:
        if older_than is None and anonymous_older_than is None:
            raise CommandError("Say how old is too old: --older-than, --anonymous-older-than, or both.")
        failed = 0
        for age, anonymous_only in ((older_than, False), (anonymous_older_than, True)):
            if age is None:
                continue
            rule = PruneRule(
                ended_before=days_ago(age),
                anonymous_only=anonymous_only,
                waiting=include_waiting,
                unresolved=include_unresolved,
            )
            tally = Pruner(rule=rule, batch_size=batch_size, dry_run=dry_run).prune()
            whose = " of anonymous visitors" if anonymous_only else ""
            what = "would be pruned" if dry_run else "pruned"
            threads, runs = counted(tally.threads, "thread"), counted(tally.runs, "run")
            self.stdout.write(f"{threads} and {runs} outside of threads{whose} {what}.")
            failed += tally.failed
        if failed:
            raise CommandError(
                f"{counted(failed, 'batch', 'batches')} could not be pruned; the log of this process says why."
            )
