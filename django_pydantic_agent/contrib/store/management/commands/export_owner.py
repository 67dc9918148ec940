from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_pydantic_agent.contrib.store.export import export
from django_pydantic_agent.contrib.store.management.arguments import add_owner, owner_of
from django_pydantic_agent.contrib.store.management.output import while_read
from django_pydantic_agent.contrib.store.rows import as_json
from django_pydantic_agent.ownership import Owner


class Command(BaseCommand):
    help = "Writes all that an owner has as JSON Lines: one object per line, which says by `type` what it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_owner(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="write to a new file, not to standard output")

    def handle(self, *args: Any, owner: Owner | None, user: str | None, output: Path | None, **options: Any) -> None:
        whose = owner_of(owner, user)
        if whose is None:
            raise CommandError("Say whose data to export: the owner's key or --user.")
        try:
            with while_read(self.stdout) if output is None else output.open("x", encoding="utf-8") as lines:
                for line in export(whose):
                    lines.write(as_json(line) + "\n")
        except FileExistsError:
            raise CommandError(f"{output} is there already.") from None
        except OSError as error:
            raise CommandError(f"{output or 'What is exported'} cannot be written: {error.strerror}.") from None
