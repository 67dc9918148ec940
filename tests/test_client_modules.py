"""The modules of the pages that need no browser, in Node."""

import subprocess
from pathlib import Path

import pytest

from tests.stock_client import NODE, install_clients

ROOT = Path(__file__).parent.parent
MODULES = ROOT / "django_ag_ui" / "static" / "django_ag_ui" / "ui"
MOST_BYTES = 40 * 1024


@pytest.mark.node
@pytest.mark.parametrize("module", ["stream", "fold", "post"])
def test_module_passes_its_tests_in_node(module: str):
    install_clients()
    result = subprocess.run(
        ["node", "--test", f"{module}.test.mjs"], cwd=NODE, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_modules_of_the_pages_are_small_without_compression():
    assert sum(path.stat().st_size for path in MODULES.glob("*.js")) <= MOST_BYTES
