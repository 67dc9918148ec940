"""Programs that tests run in a process of its own, because they need databases of their own.

`settings` is the source of a settings module that builds on `tests.settings`; `program` runs after `django.setup()`.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def run_program(path: Path, *, settings: str, program: str) -> str:
    """Return what the program prints; fail with what it says where it fails."""
    (path / "program_settings.py").write_text(f"from tests.settings import *\n{settings}")
    (path / "program.py").write_text(f"import django\ndjango.setup()\n{program}")
    result = subprocess.run(
        [sys.executable, "-W", "error", str(path / "program.py")],
        cwd=ROOT,
        env=os.environ
        | {"DJANGO_SETTINGS_MODULE": "program_settings", "PYTHONPATH": f"{path}:{ROOT}", "TEST_DATABASE": "sqlite"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
