"""Missing ranges of positions, by stream."""

from collections.abc import Iterable, Iterator

from durable_sessions.tools.verify.coverage import Range


class MissingRanges:
    """Ranges of positions that are missing; those that are found are removed."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[Range]] = {}

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, Range]]:
        for stream, ranges in self._ranges.items():
            for one in ranges:
                yield stream, one

    @property
    def streams(self) -> list[int]:
        """The streams with missing positions."""
        return list(self._ranges)

    def copy(self) -> "MissingRanges":
        """Return an independent copy."""
        other = MissingRanges()
        other._ranges = dict(self._ranges)
        return other

    def add(self, stream: int, ranges: Iterable[Range]) -> None:
        """Add missing positions of a stream."""
        if found := list(ranges):
            self._ranges[stream] = sorted([*self._ranges.get(stream, []), *found])

    def of(self, stream: int, run: Range) -> list[Range]:
        """Return the missing parts of a run of positions."""
        cut = [(max(first, run[0]), min(end, run[1])) for first, end in self._ranges.get(stream, ())]
        return [one for one in cut if one[0] < one[1]]

    def found(self, stream: int, run: Range) -> None:
        """Remove positions that were found."""
        left: list[Range] = []
        for first, end in self._ranges.get(stream, ()):
            left += [(first, min(end, run[0])), (max(first, run[1]), end)]
        ranges = [one for one in left if one[0] < one[1]]
        if ranges:
            self._ranges[stream] = ranges
        else:
            self._ranges.pop(stream, None)
