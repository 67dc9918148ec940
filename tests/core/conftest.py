"""The stock client, one process for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.core.folding import Client, running_client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running_client() as client:
        yield client
