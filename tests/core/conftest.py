"""The stock client, one process for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.core.folding import Client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    started = Client()
    yield started
    started.process.stdin.close()
    started.process.wait(30)
    started.process.stdout.close()
