from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.contrib.store.erasure import ErasedTally, deleted_users, erase, left_over, owned
from django_pydantic_agent.contrib.store.management.arguments import add_batches, add_owner, owner_of
from django_pydantic_agent.contrib.store.management.output import counted
from django_pydantic_agent.ownership import Owner


class Command(BaseCommand):
    help = (
        "Deletes all that an owner has: threads, runs, logs, ledger and model messages, whatever state they are in. "
        "Stopped half way, it is finished with --left-over."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_owner(parser)
        parser.add_argument("--left-over", action="store_true", help="finish what was begun and is not done")
        parser.add_argument(
            "--deleted-users", action="store_true", help="erase every owner whose user is not in the database any more"
        )
        add_batches(parser, of="runs or threads", done="deleted")

    def handle(
        self,
        *args: Any,
        owner: Owner | None,
        user: str | None,
        left_over: bool,
        deleted_users: bool,
        batch_size: int,
        dry_run: bool,
        **options: Any,
    ) -> None:
        owners = _owners(owner_of(owner, user), left_over, deleted_users)
        if not owners and not (left_over or deleted_users):
            raise CommandError("Say whose data to erase: the owner's key, --user, --left-over or --deleted-users.")
        total = ErasedTally()
        for one in owners:
            total += owned(one) if dry_run else erase(one, batch_size=batch_size)
        threads, runs = counted(total.threads, "thread"), counted(total.runs, "run")
        what = "would be deleted" if dry_run else "deleted"
        self.stdout.write(f"{threads} and {runs} of {counted(len(owners), 'owner')} {what}.")


def _owners(named: Owner | None, with_left_over: bool, with_deleted_users: bool) -> list[Owner]:
    owners = [] if named is None else [named]
    if with_left_over:
        owners += left_over()
    if with_deleted_users:
        owners += deleted_users()
    return list(dict.fromkeys(owners))
