"""Where the logs of partitions are, for tools that work while no server does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from durable_sessions.bucket.cluster_description import DESCRIPTION
from durable_sessions.log import Claimant, Log
from durable_sessions.log.file import FileLog
from durable_sessions.log.generations import LOG_NAME
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.cluster.streams import make_stream


class PartitionLogs(Protocol):
    """Opens and makes the logs of the partitions of one bucket."""

    @property
    def in_files(self) -> bool:
        """Whether a single server has them, in its data directory."""
        ...

    async def open(self, partition: PartitionId) -> Log:
        """Return the log of a partition; LogLockedError if a process on this machine has it."""
        ...

    async def own(self, log: Log) -> int | None:
        """Let nobody else append to a log that belongs to its bucket; return the epoch if that has one."""
        ...

    async def make(self, partition: PartitionId) -> Log:
        """Return a new, empty log for a partition."""
        ...

    async def announce(self, generation: int) -> None:
        """Write down how the logs of a new generation are found, before its layout is committed."""
        ...


@dataclass(frozen=True, slots=True)
class FileLogs:
    """Logs in files of a data directory."""

    data: Path
    segment_bytes_max: int
    in_files: bool = True

    async def open(self, partition: PartitionId) -> Log:
        """Lock and return the log of a partition."""
        directory = partition.directory(self.data) / LOG_NAME
        return await FileLog.open(directory, segment_bytes_max=self.segment_bytes_max)

    async def make(self, partition: PartitionId) -> Log:
        """Return a new log in the directory of a partition."""
        return await self.open(partition)

    async def own(self, log: Log) -> int | None:
        """Do nothing: the lock is enough."""
        return None

    async def announce(self, generation: int) -> None:
        """Do nothing: the directory says it."""


@dataclass(frozen=True, slots=True)
class ClusterPartitionLogs:
    """Logs of a cluster, in NATS or in the bucket; ``claimant`` is who claims them."""

    cluster: ClusterLogs
    claimant: Claimant
    in_files: bool = False

    async def open(self, partition: PartitionId) -> Log:
        """Return the log of a partition."""
        return await self.cluster.log(partition)

    async def own(self, log: Log) -> int | None:
        """Claim a log: a node that still runs is fenced."""
        return await log.claim(self.claimant)

    async def make(self, partition: PartitionId) -> Log:
        """Make the stream of a partition if the logs are in NATS, and return its log."""
        if self.cluster.wire is not None:
            location = self.cluster.bucket.location
            await make_stream(self.cluster.wire, self.cluster.description, partition, location)
        return await self.cluster.log(partition)

    async def announce(self, generation: int) -> None:
        """Describe the cluster in the bucket; it begins with the layout of this generation."""
        described = msgspec.structs.replace(self.cluster.description, generation=generation)
        await self.cluster.bucket.put(DESCRIPTION, msgspec.json.encode(described))
