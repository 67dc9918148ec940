"""Processes to kill, and what a test asks of the database that they share with it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker, Settings

from django_pydantic_agent.runs.engine import get_engine, stop_engine
from tests.live.gates import Gatekeeper
from tests.recovery import settings as recovery_settings
from tests.recovery.processes import Job, Processes
from tests.servers import LiveDatabase

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="package")
def gates() -> Iterator[Gatekeeper]:
    with contextlib.closing(Gatekeeper()) as gatekeeper:
        yield gatekeeper


@pytest.fixture(scope="package")
def env(gates: Gatekeeper, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the processes and the test find each other by, besides the database."""
    return gates.env | {"FOREIGN_STEPS": str(tmp_path_factory.mktemp("steps") / "steps.sqlite3")}


@pytest.fixture(scope="package")
def zygote(migrated_database: LiveDatabase, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    env = os.environ | migrated_database.env | env | {"DJANGO_SETTINGS_MODULE": "tests.recovery.settings"}
    command = [sys.executable, "-m", "tests.recovery.zygote"]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zygote:
        yield zygote
        zygote.kill()


@pytest.fixture
def processes(
    zygote: subprocess.Popen[str],
    live_database: LiveDatabase,
    env: dict[str, str],
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Processes]:
    """Start processes of the project of this folder; the test itself belongs to the same project."""
    settings.ROOT_URLCONF = recovery_settings.ROOT_URLCONF
    settings.DJANGO_PYDANTIC_AGENT = recovery_settings.DJANGO_PYDANTIC_AGENT
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    jobs: list[Job] = []

    def start(do: str, **job: Any) -> Job:
        output = tmp_path / f"output-{len(jobs)}"
        output.touch()
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(json.dumps({"do": do, "output": str(output), **job}) + "\n")
        zygote.stdin.flush()
        jobs.append(Job(int(zygote.stdout.readline()), output))
        return jobs[-1]

    Path(env["FOREIGN_STEPS"]).unlink(missing_ok=True)
    stop_engine()
    yield Processes.new(start)
    for job in jobs:
        job.kill(signal.SIGKILL)
    get_engine().wait()
    stop_engine()
