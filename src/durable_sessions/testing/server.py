"""A real server in this process, for tests: a directory, a free port, and a URL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.node.node import Node
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.settings import Settings


class LocalServer:
    """A server on loopback that can be restarted on the same data and port."""

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
        self.node = await Node.open(
            self._settings,
            limits=self._limits,
            clock=self._clock,
            disk=self._disk,
            partitions=self._partitions,
            group=self._group,
        )
        await self.node.listen()
        self._settings = replace(self._settings, port=self.node.server.port)

    async def stop(self) -> None:
        """Finish what is in flight and close."""
        await self.node.close()

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
