from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from durable_sessions.testing import server as background_server
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.process import WORKERS
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", workers=WORKERS) as running:
        yield running


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url + "/v1/stream", timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
async def api(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the sessions face, ``/v1``."""
    async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BackgroundServer]:
    """A server in a thread of its own."""
    with background_server(tmp_path / "data", workers=WORKERS) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    """A server in a thread of its own, for all tests of a module."""
    with background_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    """Such a server that wants a key, ``secret``."""
    with background_server(tmp_path_factory.mktemp("guarded"), api_key="secret") as server:
        yield server


@pytest.fixture
def sdk(running: BackgroundServer) -> Iterator[Client]:
    """The Python client of that server."""
    with Client(running.url) as client:
        yield client
