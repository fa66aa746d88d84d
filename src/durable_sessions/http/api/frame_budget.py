"""A bound on what is kept encoded for the followers of all streams together."""

from typing import Protocol


class FrameKeeper(Protocol):
    """Keeps encoded pieces of one stream, by the position at which they begin."""

    def forget(self, start: int) -> None:
        """Drop the piece that begins at ``start``, and tell the budget."""
        ...


class FrameBudget:
    """Bounds what the encoded frames of all streams take; what was put there first leaves first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[tuple[FrameKeeper, int], int] = {}
        self._bytes = 0

    def put(self, keeper: FrameKeeper, start: int, size: int) -> None:
        """Count what a keeper has under ``start``; older things are dropped if it is too much."""
        self.drop(keeper, start)
        self._sizes[keeper, start] = size
        self._bytes += size
        while self._bytes > self._bytes_max:
            oldest, start = next(iter(self._sizes))
            oldest.forget(start)

    def drop(self, keeper: FrameKeeper, start: int) -> None:
        """Count something no longer."""
        self._bytes -= self._sizes.pop((keeper, start), 0)
