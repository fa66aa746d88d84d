"""How heartbeats reach the other nodes: as messages of NATS, or as objects of the bucket."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from durable_sessions.errors import BucketError, ObjectDamagedError, ObjectNotFoundError
from durable_sessions.log.nats.wire import NatsWire

NODES = "cluster/nodes"
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
    """An object for each node, written anew with each heartbeat; the others are read after each own one."""

    def __init__(self, bucket: BeatObjects) -> None:
        self._bucket = bucket
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
        """Remove the own object."""
        try:
            await self._bucket.delete([f"{NODES}/{node}.json"])
        except BucketError:
            pass  # a node that is silent is dead to the others soon

    async def _read(self) -> None:
        assert self._hear is not None
        try:
            for path, _, _ in await self._bucket.list(NODES):
                self._hear(await self._bucket.get(path))
        except (BucketError, ObjectNotFoundError, ObjectDamagedError):
            pass  # the next look comes soon
