from hashlib import sha256
from typing import Any

from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandParser

from django_ag_ui.server import get_server
from django_pydantic_agent.log.accept import accept_transcript, parse_input
from django_pydantic_agent.ownership import Owner
from django_pydantic_agent.runs.engine import get_engine
from django_pydantic_agent.runs.plan import RunPlan
from django_pydantic_agent.runs.request import RunRequest
from django_pydantic_agent.stores import run_store_for


class Command(BaseCommand):
    help = "Run the agent of a mount for a user and print the frames."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("body")

    def handle(self, *args: Any, username: str, body: str, **options: Any) -> None:
        user = User.objects.get(username=username)
        owner = Owner.of_user(user)
        run_input = accept_transcript(parse_input(body.encode()))
        store = run_store_for(owner)
        plan = RunPlan(
            config=get_server("agent").agent_config,
            request=RunRequest(
                user=user, owner=owner, run_id=run_input.run_id, thread_id=run_input.thread_id, body=body.encode()
            ),
            run_input=run_input,
            store=store,
            digest=sha256(body.encode()).hexdigest(),
        )
        run = get_engine().start(plan)
        for batch in get_engine().follow(run, store=store):
            for frame in batch.frames:
                self.stdout.write(frame.decode())
