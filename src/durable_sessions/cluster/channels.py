"""How heartbeats reach the other nodes: as messages of NATS, or as objects of the bucket."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from durable_sessions.errors import BucketError, ObjectDamagedError, ObjectNotFoundError
from durable_sessions.log.nats.wire import NatsWire

NODES = "cluster/nodes"
KEPT_SECONDS = 3600.0
"""For how long the last heartbeat of a node stays in the bucket, for whoever wonders what became of it."""
READS_AT_A_TIME = 32
REMOVED_AT_A_TIME = 100
Hear = Callable[[bytes], None]


class HeartbeatChannel(Protocol):
    """Takes heartbeats of this node to the others, and theirs here."""

    async def open(self, hear: Hear) -> None:
        """Call ``hear`` with each heartbeat of another node from now on, maybe also with the own ones."""
        ...

    async def send(self, node: str, beat: bytes) -> None:
        """Send a heartbeat; one that is lost is lost."""
        ...

    async def close(self, node: str) -> None:
        """Leave: this node tells nothing more."""
        ...


class NatsChannel:
    """Messages of NATS that nobody keeps, on one subject for the cluster."""

    def __init__(self, wire: NatsWire, cluster: str) -> None:
        self._wire = wire
        self._subject = f"ds.{cluster}.node"

    async def open(self, hear: Hear) -> None:
        """Listen to the subject."""

        async def take(beat: bytes) -> None:
            hear(beat)

        await self._wire.subscribe(self._subject, take)

    async def send(self, node: str, beat: bytes) -> None:
        """Publish a heartbeat."""
        await self._wire.publish(self._subject, beat)

    async def close(self, node: str) -> None:
        """Do nothing: the connection belongs to the process."""


class BeatObjects(Protocol):
    """The operations of an object store that heartbeats need."""

    def put(self, path: str, data: bytes) -> Awaitable[None]:
        """Write an object."""
        ...

    def get(self, path: str) -> Awaitable[bytes]:
        """Return an object."""
        ...

    def delete(self, paths: Sequence[str]) -> Awaitable[None]:
        """Remove objects."""
        ...

    def list(self, prefix: str) -> Awaitable[Sequence[tuple[str, int, int]]]:
        """Return path, size and time of change of all objects under a prefix."""
        ...


class BucketChannel:
    """An object for each node, written anew with each heartbeat; the others are read after each own one.

    Objects that are older than a node may be silent are not read: by the clock of the store, whoever wrote
    them is dead. A node that stops leaves its last one, which says to whom it gave its partitions.
    """

    def __init__(self, bucket: BeatObjects, silent_seconds_max: float) -> None:
        self._bucket = bucket
        self._silent_ms_max = silent_seconds_max * 1000
        self._hear: Hear | None = None

    async def open(self, hear: Hear) -> None:
        """Read what is there."""
        self._hear = hear
        await self._read()

    async def send(self, node: str, beat: bytes) -> None:
        """Write the own object, and read those of others."""
        try:
            await self._bucket.put(f"{NODES}/{node}.json", beat)
        except BucketError:
            return
        await self._read()

    async def close(self, node: str) -> None:
        """Do nothing: the object is removed by the others when it is old."""

    async def _read(self) -> None:
        try:
            listed = await self._bucket.list(NODES)
        except BucketError:
            return  # the next look comes soon
        newest_ms = max((modified for _, _, modified in listed), default=0)
        recent = [path for path, _, modified in listed if newest_ms - modified <= self._silent_ms_max]
        old = [path for path, _, modified in listed if newest_ms - modified > KEPT_SECONDS * 1000]
        turns = asyncio.Semaphore(READS_AT_A_TIME)
        await asyncio.gather(*(self._hear_one(path, turns) for path in recent), self._remove(old))

    async def _hear_one(self, path: str, turns: asyncio.Semaphore) -> None:
        """Hear what one node tells; that it cannot be read says nothing about the others."""
        assert self._hear is not None
        async with turns:
            try:
                beat = await self._bucket.get(path)
            except (BucketError, ObjectNotFoundError, ObjectDamagedError):
                return
        self._hear(beat)

    async def _remove(self, paths: Sequence[str]) -> None:
        try:
            if paths:
                await self._bucket.delete(paths[:REMOVED_AT_A_TIME])
        except BucketError:
            pass  # it is tried again after the next heartbeat
