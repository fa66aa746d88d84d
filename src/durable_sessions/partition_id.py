"""Which partition something belongs to: its number, how many there are, and how it numbers its streams.

Stream numbers are in event ids, ETags, cursors and search hits. So each partition has a range of its own:
no two partitions ever give out the same number. Partition 0 has 1, 2, 3 and so on, as it always had.
"""

from dataclasses import dataclass
from pathlib import Path

PARTITIONS_MAX = 100
"""Names of objects have two digits for the partition."""
STREAMS_BITS = 40
"""Of a stream's number, those that count within the partition. With all partitions that makes less than
2**53, so that nothing that keeps numbers as floats, such as JavaScript, takes one stream for another."""
STREAMS_MAX = 2**STREAMS_BITS


@dataclass(frozen=True, slots=True)
class PartitionId:
    """One partition of a bucket that has ``of`` of them; without arguments, that of a bucket with one."""

    number: int = 0
    of: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of <= PARTITIONS_MAX:
            raise ValueError(
                f"there is no partition {self.number} of {self.of}: they are counted from 0, and a bucket has"
                f" {PARTITIONS_MAX} at most"
            )

    @property
    def digits(self) -> str:
        """The number as it is in the names of objects."""
        return f"{self.number:02d}"

    @property
    def streams(self) -> range:
        """The numbers that this partition gives to streams."""
        begin = self.number << STREAMS_BITS
        return range(begin + 1, begin + STREAMS_MAX)

    def directory(self, data: Path) -> Path:
        """Return where log, catalog and search index of this partition are in a data directory."""
        return data if self.number == 0 else data / "partitions" / self.digits


ONLY_PARTITION = PartitionId()


def same_partition(one: int, other: int) -> bool:
    """Say whether two stream numbers were given out by the same partition."""
    return one >> STREAMS_BITS == other >> STREAMS_BITS
