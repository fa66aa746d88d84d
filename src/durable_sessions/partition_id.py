"""Which partition something belongs to: its number, its generation, and how it numbers its streams.

Stream numbers are in event ids, ETags, cursors and search hits. So each partition has a range of its own:
no two partitions ever give out the same number. Partition 0 has 1, 2, 3 and so on, as it always had.

A bucket with more than one partition also has a *system partition* for what belongs to no workspace: keys and
the audit record. With one partition, that one is also the system partition.

A *generation* is a division of a bucket into partitions. Repartitioning makes the next one; the names of what
a partition writes carry the generation, so that two generations never write the same name.
"""

from dataclasses import dataclass
from pathlib import Path

PARTITIONS_MAX = 100
"""Names of objects have two digits for the partition."""
SYSTEM = PARTITIONS_MAX
"""The number of the system partition where there are several: the one after the last possible."""
STREAMS_BITS = 40
"""Of a stream's number, those that count within the partition. With all partitions that makes less than
2**53, so that nothing that keeps numbers as floats, such as JavaScript, takes one stream for another."""
STREAMS_MAX = 2**STREAMS_BITS
_RANGES = 128
"""How many ranges of numbers a generation has: one for each partition that it may have."""
GENERATIONS_MAX = 2**53 // (_RANGES * STREAMS_MAX)
"""How many generations fit below 2**53, with 0: a bucket can be repartitioned 63 times."""


@dataclass(frozen=True, slots=True)
class PartitionId:
    """One partition of a bucket that has ``of`` of them; without arguments, that of a bucket with one."""

    number: int = 0
    of: int = 1
    generation: int = 0

    def __post_init__(self) -> None:
        known = 0 <= self.number < self.of or (self.number == SYSTEM and self.of > 1)
        if not known or not self.of <= PARTITIONS_MAX or not 0 <= self.generation < GENERATIONS_MAX:
            raise ValueError(
                f"there is no partition {self.number} of {self.of} in generation {self.generation}: they are"
                f" counted from 0, and a bucket has {PARTITIONS_MAX} in {GENERATIONS_MAX} generations"
            )

    @property
    def is_system(self) -> bool:
        """Whether keys and the audit record are in this partition."""
        return self.of == 1 or self.number == SYSTEM

    @property
    def digits(self) -> str:
        """The partition as it is in the names of objects: two digits, or ``sys``, after the generation."""
        own = "sys" if self.number == SYSTEM else f"{self.number:02d}"
        return f"{self.generation}-{own}" if self.generation else own

    @property
    def streams(self) -> range:
        """The numbers that this partition gives to streams: above all that earlier generations gave."""
        begin = (self.generation * _RANGES + self.number) << STREAMS_BITS
        return range(begin + 1, begin + STREAMS_MAX)

    def directory(self, data: Path) -> Path:
        """Return where log, catalog and search index of this partition are in a data directory."""
        is_first = self.number == self.generation == 0
        return data if is_first else data / "partitions" / self.digits

    def all(self) -> "list[PartitionId]":
        """Return all partitions of this one's bucket and generation, the system partition last."""
        numbers = [*range(self.of), *([SYSTEM] if self.of > 1 else [])]
        return [PartitionId(number, self.of, self.generation) for number in numbers]


ONLY_PARTITION = PartitionId()


def same_partition(one: int, other: int) -> bool:
    """Say whether two stream numbers were given out by the same partition."""
    return one >> STREAMS_BITS == other >> STREAMS_BITS
