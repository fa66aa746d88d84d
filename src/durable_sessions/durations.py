"""How long something took, over and over: counted by upper bounds, for a histogram."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence


class Durations:
    """Counts of durations below each bound and above all, and their sum, in seconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_seconds += seconds


def buckets(bounds: Sequence[float], counts: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Yield each bound as Prometheus names it, with how many did not take longer."""
    total = 0
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        yield bound, total
