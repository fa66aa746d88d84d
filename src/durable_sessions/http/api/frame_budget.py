"""The memory budget for encoded frames of all streams together."""

from typing import Protocol


class FrameKeeper(Protocol):
    """Keeps encoded pieces of one stream, by the position at which they begin."""

    def forget(self, start: int) -> None:
        """Drop the piece that begins at ``start``, and tell the budget."""
        ...


class FrameBudget:
    """Limits the memory of encoded frames; the oldest are evicted first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[tuple[FrameKeeper, int], int] = {}
        self._bytes = 0

    def put(self, keeper: FrameKeeper, start: int, size: int) -> None:
        """Count a frame that a keeper stores under ``start``; evict older ones if the budget is exceeded."""
        self.drop(keeper, start)
        self._sizes[keeper, start] = size
        self._bytes += size
        while self._bytes > self._bytes_max:
            oldest, start = next(iter(self._sizes))
            oldest.forget(start)

    def drop(self, keeper: FrameKeeper, start: int) -> None:
        """Stop counting a frame."""
        self._bytes -= self._sizes.pop((keeper, start), 0)
