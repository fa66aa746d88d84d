from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data") as running:
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
