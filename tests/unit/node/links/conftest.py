from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import UnixAddress
from durable_sessions.node.link_answerer import PartitionHandler
from durable_sessions.node.link_server import LinkServer

SECRET = b"s" * 32


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def address(anyio_backend: object) -> Any:
    with TemporaryDirectory(prefix="ds") as directory:  # a short path: unix sockets need one
        yield UnixAddress(Path(directory) / "link")


class Pair:
    """An owner, and a link to it."""

    def __init__(self, server: LinkServer, link: NodeLink) -> None:
        self.server = server
        self.link = link


Connect = Callable[..., Awaitable[Pair]]


@pytest.fixture
async def connect(address: UnixAddress) -> AsyncIterator[Connect]:
    """Start an owner and a link to it, which end with the test and leave nothing under way."""
    pairs: list[Pair] = []

    async def start(handler: PartitionHandler, **limits: Any) -> Pair:
        bounds = replace(DEFAULT_LIMITS, **limits)
        server = LinkServer(handler, [SECRET], bounds, refuse=ANSWER_FORMAT.refuse)
        await server.listen(address)
        pairs.append(Pair(server, NodeLink(address, [SECRET], bounds)))
        return pairs[-1]

    yield start
    for pair in pairs:
        await pair.link.close()
        await pair.server.close()
        assert (pair.server.counts.open_requests, pair.server.counts.open_streams) == (0, 0)
        assert pair.link.open_requests == 0
