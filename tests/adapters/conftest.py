from collections.abc import Iterator

import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from durable_sessions.testing import server as background_server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    """A server in a thread of its own, for all tests of a module."""
    with background_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def sdk(shared: BackgroundServer) -> Iterator[Client]:
    """A client that looks at what an adapter has stored."""
    with Client(shared.url) as client:
        yield client
