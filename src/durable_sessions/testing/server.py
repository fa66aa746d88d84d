"""A real server in this process, for tests: a directory, a free port, and a URL."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.node.node import Node
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.settings import Settings


class LocalServer:
    """A server on loopback that can be restarted on the same data and port.

    With the setting ``workers`` it has several nodes, which behave as worker processes do; ``node`` is the
    first of them.
    """

    def __init__(
        self,
        settings: Settings,
        limits: Limits | None,
        clock: Clock | None,
        disk: Disk,
        partitions: int | None = None,
        group: WorkerGroup | None = None,
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._clock = clock
        self._disk = disk
        self._partitions = partitions
        self._group = group
        self._sockets: TemporaryDirectory[str] | None = None
        self.nodes: list[Node] = []
        self.node: Node

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._settings.data

    @property
    def url(self) -> str:
        """Where the server is reached, without a slash at the end."""
        return f"http://127.0.0.1:{self._settings.port}"

    async def start(self) -> None:
        """Open the data directory and listen; the port stays the same from the first start on."""
        if self._disk is not REAL_DISK:
            self.data.mkdir(parents=True, exist_ok=True)  # for files that are not on the simulated disk
        self.nodes = []
        try:
            for group in self._groups():
                await self._start_node(group)
        except BaseException:
            await self.stop()
            raise

    def _groups(self) -> Sequence[WorkerGroup | None]:
        workers = self._settings.workers
        if workers == 1:
            return [self._group]
        self._sockets = TemporaryDirectory(prefix="ds-")
        secret = secrets.token_bytes(SECRET_BYTES_MIN)
        return [
            WorkerGroup(WorkerId(number, workers), Path(self._sockets.name), secret)
            for number in range(workers)
        ]

    async def _start_node(self, group: WorkerGroup | None) -> None:
        node = await Node.open(
            self._settings,
            limits=self._limits,
            clock=self._clock,
            disk=self._disk,
            partitions=self._partitions,
            group=group,
        )
        self.nodes.append(node)
        self.node = self.nodes[0]
        await node.listen()
        self._settings = replace(self._settings, port=node.server.port)

    async def stop(self) -> None:
        """Finish what is in flight and close."""
        drained = asyncio.Barrier(max(len(self.nodes), 1))

        async def wait() -> None:
            await drained.wait()

        await asyncio.gather(*(node.close(wait) for node in self.nodes))
        if self._sockets is not None:
            self._sockets.cleanup()
            self._sockets = None

    async def restart(self) -> None:
        """Stop, and start again on the same data directory and port."""
        await self.stop()
        await self.start()


@asynccontextmanager
async def local_server(
    data: Path,
    *,
    long_poll_seconds: float = 1.0,
    limits: Limits | None = None,
    clock: Clock | None = None,
    disk: Disk = REAL_DISK,
    bucket: str = "",
    partitions: int | None = None,
    group: WorkerGroup | None = None,
    **settings: Any,
) -> AsyncIterator[LocalServer]:
    """Run a server on a free port of this machine for the length of a ``with`` block.

    ``partitions`` is how many a new bucket gets, ``group`` which of several workers this is. Other
    ``settings`` are passed by name.
    """
    chosen = Settings(port=0, data=data, bucket=bucket, long_poll_seconds=long_poll_seconds, **settings)
    server = LocalServer(chosen, limits, clock, disk, partitions, group)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
