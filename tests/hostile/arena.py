"""A real server process that is attacked, with those who watch over it."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from tests.hostile.answers import Received
from tests.hostile.bystander import Crowd, crowd
from tests.hostile.stranger import PATIENCE_SECONDS, Stranger, request
from tests.hostile.vitals import Vitals
from tests.support.process import ServerProcess

MIB = 1024 * 1024
PEAK_BYTES_MAX = 576 * MIB
"""What the process may ever take, with the limits below: about 140 MiB for the program itself,
and the rest for all that strangers can make it keep, and what the allocator does not give back at once."""

SETTINGS = ("--memory-bytes", "64MiB", "--flush-bytes", "16MiB", "--long-poll-seconds", "20")
LIMITS: dict[str, float] = {
    "untaken_bytes_max": 64 * MIB,
    "request_bytes_max": 32 * MIB,
    "pending_bytes_max": 32 * MIB,
    "sse_shared_bytes_max": 32 * MIB,
    "block_cache_bytes_max": 16 * MIB,
}
BYSTANDERS = 2

_BAD_SIGNS = ("Traceback", '"level": "error"', '"level": "critical"', "never retrieved", "Exception")


class Arena:
    """One server, and a crowd that it has to serve during every attack."""

    def __init__(self, server: ServerProcess) -> None:
        assert server.process is not None
        self.server = server
        self.port = server.port
        self.vitals = Vitals(server.process.pid)
        self._pid = server.process.pid
        self._names = itertools.count()

    @contextlib.asynccontextmanager
    async def attacked(self, peak_bytes_max: int = PEAK_BYTES_MAX) -> AsyncIterator[Crowd]:
        """Watch an attack; when it is over the server must be as it was."""
        sockets = self.vitals.sockets()
        self.vitals.begin()
        log_begins = self.server.log.stat().st_size
        async with crowd(self.server.url, BYSTANDERS, f"crowd-{next(self._names)}") as those:
            yield those
        process = self.server.process
        assert process is not None
        log = self.server.log.read_text()[log_begins:]
        assert process.poll() is None, log
        assert not any(sign in log for sign in _BAD_SIGNS), log[-5000:]
        peak = self.vitals.peak_bytes()
        assert peak <= peak_bytes_max, f"{peak // MIB} MiB"
        await self.settled(sockets)

    async def settled(self, sockets: int) -> None:
        """Wait until no more than so many sockets are left; that they never go is a leak."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.vitals.sockets() > sockets:
                await asyncio.sleep(0.05)

    async def ask(self, data: bytes) -> Received:
        """Ask one thing on a connection of its own."""
        async with await Stranger.connect(self.port) as stranger:
            return await stranger.ask(data)

    async def refused(self, data: bytes) -> list[Received]:
        """Send something after which the server ends the connection."""
        async with await Stranger.connect(self.port) as stranger:
            return await stranger.refused(data)

    async def create(self, path: bytes, content_type: bytes = b"text/plain", body: bytes = b"") -> None:
        """Make a stream to be abused."""
        line = b"Content-Type: " + content_type
        answer = await self.ask(request(b"PUT", b"/v1/stream/" + path, line, body=body))
        assert answer.status == 201, answer

    async def content(self, path: bytes) -> bytes:
        """Return what a stream holds, up to what one read gives."""
        return (await self.ask(request(b"GET", b"/v1/stream/" + path))).body
