import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import router

from django_pydantic_agent.conf import agent_settings
from django_pydantic_agent.contrib.store.effects import note_reason, refusal, settle
from django_pydantic_agent.contrib.store.management.arguments import row_key
from django_pydantic_agent.contrib.store.management.output import while_read
from django_pydantic_agent.contrib.store.models import ToolEffect
from django_pydantic_agent.contrib.store.run_store import DatabaseRunStore
from django_pydantic_agent.runs.states import LIVE
from django_pydantic_agent.stores.effects import MAX_NOTE_CHARACTERS, Reason, Verdict


class Command(BaseCommand):
    help = (
        "Says whether a tool call has acted whose outcome nobody knows. "
        "Without arguments it lists these calls, each with the number that it is settled by. A call of a live run is "
        "settled once the process of the run has shown nothing for LEASE_SECONDS, which this command waits for."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "effect", nargs="?", type=row_key, help="the number of the effect, as listed and in the admin"
        )
        parser.add_argument("verdict", nargs="?", choices=Verdict.values)
        parser.add_argument("--note", default="", help=f"at most {MAX_NOTE_CHARACTERS} characters")
        parser.add_argument("--by", default="command", metavar="WHO", help="who says so (command)")

    def handle(self, *args: Any, effect: int | None, verdict: str | None, note: str, by: str, **options: Any) -> None:
        if effect is None:
            self._list()
        elif verdict is None:
            raise CommandError(f"Say what happened: {', '.join(Verdict.values)}.")
        elif len(note) > MAX_NOTE_CHARACTERS:
            raise CommandError(f"A note has at most {MAX_NOTE_CHARACTERS} characters.")
        elif any(settle(effect, Verdict(verdict), by=by, note=note) for _ in _tries(effect)):
            self.stdout.write(f"Effect {effect}: {verdict}.")
        else:
            raise CommandError(refusal(effect))

    def _list(self) -> None:
        with while_read(self.stdout) as lines:
            for effect in _effects().unresolved().select_related("run").order_by("pk").iterator():
                reason = effect.reason or ("the run is live" if effect.run.status in LIVE else "no reason known")
                known = f"{effect.tool_name} {effect.arguments} ({reason})"
                lines.write(f"{effect.pk}: run {effect.run.run_id}, {effect.started_at:%Y-%m-%d %H:%M:%S}, {known}")


def _tries(effect: int) -> Iterator[None]:
    """Yield once, and once more where the effect is of a live run whose process turns out to be gone."""
    yield
    run = _effects().unresolved().filter(pk=effect, run__status__in=LIVE).values_list("run", flat=True).first()
    if run is not None and _is_left(run):
        note_reason(run, Reason.CRASHED, using=router.db_for_write(ToolEffect))
        yield


def _is_left(run: int) -> bool:
    """Return whether the process of a run shows nothing for as long as its lease."""
    leases = DatabaseRunStore().leases
    if leases is None:
        return False
    before = [lease for lease in leases.live() if lease.run == run]
    time.sleep(agent_settings.LEASE_SECONDS)
    return before == [lease for lease in leases.live() if lease.run == run]


def _effects() -> Any:
    return ToolEffect.objects.using(router.db_for_write(ToolEffect))
