"""What the two apps add to the start of every process of a project."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from statistics import median

from benchmarks.report import Bound, Measured
from benchmarks.sides import alternate
from tests.servers import ROOT

APPS = ("django_ag_ui", "django_pydantic_agent.contrib.store")
PROGRAM = """
import gc, sys, time
import django
from django.conf import settings
from tests import settings as project
apps = [app for app in project.INSTALLED_APPS if app not in sys.argv[1:]]
values = {name: value for name, value in vars(project).items() if name.isupper()}
settings.configure(**values | {"INSTALLED_APPS": apps})
gc.disable()  # whether a full collection falls into it is chance
began = time.process_time()
django.setup()
print(time.process_time() - began)
"""


def measure(rounds: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as bytecode:
        pairs = alternate(4 * rounds, lambda: duration(bytecode), lambda: duration(bytecode, *APPS))
    yield Measured("django.setup()", median(ours for ours, _ in pairs) * 1000, "ms")
    yield Measured("django.setup() without the apps", median(without for _, without in pairs) * 1000, "ms")
    ratio = median(ours / without for ours, without in pairs)
    yield Measured("django.setup(), against without the apps", ratio, "", Bound(at_most=1.1))


def duration(bytecode: str, *left_out: str) -> float:
    """Return the seconds of processor time that django.setup() takes in a new process without some apps.

    The compiled modules are kept in the directory `bytecode`.
    """
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *left_out],
        cwd=ROOT,
        env=os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(process.stdout)
