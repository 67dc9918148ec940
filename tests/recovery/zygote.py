"""A process from which a test forks others that have all they need loaded, to kill them.

It reads one job per line, as JSON, forks a process that does the job, and answers with its process id. A job writes
what it shows into the file `output`, which outlives it.
"""

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import django


def post(job: dict[str, Any], write: Callable[[bytes], None]) -> None:
    """Post to a mount and write the stream that comes back."""
    from django.contrib.auth.models import User
    from django.test import Client

    if job["drain"] is not None:
        threading.Thread(target=_drain_at, args=[job["drain"]]).start()
    client = Client()
    client.force_login(User.objects.get(pk=job["user"]))
    response = client.post(job["path"], json.dumps(job["body"]), content_type="application/json")
    if not response.streaming:
        write(response.content)
        return
    for chunk in response.streaming_content:
        write(chunk)


def _drain_at(gate: str) -> None:
    """Drain at a gate without any grace, and look for orphans after that."""
    from django_pydantic_agent.runs.engine import drain_engine, get_engine
    from django_pydantic_agent.runs.recovery import Recovery
    from django_pydantic_agent.stores import durable_store
    from tests.live.gates import pass_gate_blocking

    pass_gate_blocking(gate)
    drain_engine(0)
    store = durable_store()
    assert store is not None
    Recovery(get_engine(), store).look()
    pass_gate_blocking(f"{gate} done")


def sweep(job: dict[str, Any], write: Callable[[bytes], None]) -> None:
    """Look, and look again when the test says so, when by the clock of the job more than a lease has passed."""
    from django_pydantic_agent.contrib.store.models import Run
    from django_pydantic_agent.runs.engine import get_engine
    from django_pydantic_agent.runs.recovery import Recovery
    from django_pydantic_agent.stores import durable_store
    from tests.live.gates import pass_gate_blocking

    ahead = [0.0]
    recovery = Recovery(get_engine(), durable_store(), clock=lambda: time.monotonic() + ahead[0])
    recovery.look()
    pass_gate_blocking(job["gate"])
    ahead[0] = 1000.0
    while Run.objects.live().exists():
        recovery.look()
        time.sleep(0.05)
    write(json.dumps([recovery.ended, recovery.begun]).encode())


def command(job: dict[str, Any], write: Callable[[bytes], None]) -> None:
    from django.core.management import call_command

    call_command(*job["arguments"], stdout=io.StringIO())


def recover(job: dict[str, Any], write: Callable[[bytes], None]) -> None:
    """Take over what nobody beats for, by a clock that is ahead, and execute it to its end."""
    from django_pydantic_agent.contrib.store.models import Run
    from django_pydantic_agent.runs.engine import get_engine
    from django_pydantic_agent.runs.recovery import Recovery
    from django_pydantic_agent.stores import durable_store

    ahead = [0.0]
    recovery = Recovery(get_engine(), durable_store(), clock=lambda: time.monotonic() + ahead[0])
    recovery.look()
    while Run.objects.live().exists():
        ahead[0] += 1000.0
        recovery.look()
        time.sleep(0.05)


def main() -> None:
    django.setup()
    import tests.recovery.urls  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid:
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        descriptor = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        do = {"post": post, "command": command, "recover": recover, "sweep": sweep}[job["do"]]
        do(job, lambda data, to=descriptor: os.write(to, data))
        os.write(descriptor, b"\n: done\n\n")
        os._exit(0)


if __name__ == "__main__":
    main()
