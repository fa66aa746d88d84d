"""What is read in place of a stream's erased records, until these are gone from log and bucket.

Most streams have no erased records and share :data:`NO_OVERLAY`, which is false.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from durable_sessions.streams.effects import ErasedRecord


class Overlay:
    """The erased records of a stream by position; replaced as a whole, never changed in place."""

    __slots__ = ("_positions", "_records", "size")

    def __init__(self, records: dict[int, ErasedRecord]) -> None:
        self._records = records
        self._positions: list[int] | None = None
        self.size = sum(len(record.data) for record in records.values())

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ErasedRecord]:
        return iter(self._records.values())

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the erased records, in order; sorted on first use."""
        if self._positions is None:
            self._positions = sorted(self._records)
        return self._positions

    def get(self, position: int) -> ErasedRecord | None:
        """Return what stands in place of a record, None if the record itself is read."""
        return self._records.get(position)

    def first_in(self, start: int, stop: int) -> int | None:
        """Return the first position from ``start`` on, before ``stop``, that is erased."""
        positions = self.positions
        at = bisect_left(positions, start)
        return positions[at] if at < len(positions) and positions[at] < stop else None

    def with_records(self, records: Iterable[ErasedRecord]) -> "Overlay":
        """Return the overlay with more records erased."""
        return Overlay({**self._records, **{record.position: record for record in records}})

    def without(self, positions: Iterable[int]) -> "Overlay":
        """Return the overlay without those that are gone everywhere."""
        settled = set(positions)
        left = {at: record for at, record in self._records.items() if at not in settled}
        return Overlay(left) if left else NO_OVERLAY


NO_OVERLAY = Overlay({})
"""Shared by all streams of which nothing is erased."""


def shown_to(record: ErasedRecord | None, fork: int | None) -> ErasedRecord | None:
    """Return the erased record, or None if it is read through a fork that the erasure spares.

    Without a ``fork`` the stream itself is read. A fork of the fork reads the same as the fork.
    """
    if record is None or (fork is not None and fork < record.spares):
        return None
    return record
