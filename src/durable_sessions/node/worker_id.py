"""Which of several workers a process is, and which partitions it has."""

from dataclasses import dataclass

from durable_sessions.partition_id import SYSTEM, PartitionId


@dataclass(frozen=True, slots=True)
class WorkerId:
    """One of the processes that share a data directory; without arguments, the only one."""

    number: int = 0
    of: int = 1

    def owns(self, partition: int) -> bool:
        """Say whether this worker has a partition."""
        return self.owner(partition) == self.number

    def owner(self, partition: int) -> int:
        """Return which worker has a partition; the first one has the system partition."""
        return 0 if partition == SYSTEM else partition % self.of

    def partitions(self, of: int, generation: int = 0) -> list[PartitionId]:
        """Return the partitions of this worker, where there are this many in all."""
        everything = PartitionId(0, of, generation).all()
        return [partition for partition in everything if self.owns(partition.number)]


ONLY_WORKER = WorkerId()
