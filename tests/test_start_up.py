"""Importing pydantic_ai costs seconds, so what every management command loads must do without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETTINGS = ["tests.settings", "example_project.settings"]

SETUP = """
import django
django.setup()
"""
# The check command imports the URLconf, and with it the servers that are mounted there.
CHECK = """
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "check"])
"""
REPORT = """
import json, sys
print(json.dumps([name for name in sys.argv[1:] if name in sys.modules]))
"""


def loaded(program: str, settings_module: str, *names: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", program + REPORT, *names],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": settings_module, "TEST_DATABASE": "sqlite"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("settings_module", SETTINGS)
def test_setup_loads_neither_pydantic_nor_an_agent_library(settings_module: str):
    assert loaded(SETUP, settings_module, "pydantic", "ag_ui", "pydantic_ai", "pydantic_ai_harness") == []


@pytest.mark.parametrize("settings_module", SETTINGS)
def test_check_with_mounted_servers_loads_no_agent_library(settings_module: str):
    assert loaded(CHECK, settings_module, "pydantic_ai", "pydantic_ai_harness") == []
