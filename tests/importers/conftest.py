from collections.abc import Iterator

import pytest

from durable_sessions import testing
from durable_sessions.client import Client
from tests.support.process import WORKERS


@pytest.fixture(scope="module")
def server() -> Iterator[testing.BackgroundServer]:
    with testing.server(workers=WORKERS) as running:
        yield running


@pytest.fixture
def client(server: testing.BackgroundServer) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made
