"""The batches of the log that are not in the bucket yet."""

from collections import deque
from typing import NamedTuple

from durable_sessions.clock import Clock
from durable_sessions.limits import Limits


class UnflushedBatch(NamedTuple):
    """A batch of the log that is not in the bucket yet."""

    position: int
    size: int
    effects: int
    at_ms: int


class FlushBacklog:
    """Unflushed batches, oldest first: ``bytes_held`` and ``effects_held`` are what is in all of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._batches: deque[UnflushedBatch] = deque()
        self.bytes_held = self.effects_held = 0

    def add(self, position: int, size: int, effects: int) -> None:
        """Add a batch that has become durable."""
        self._batches.append(UnflushedBatch(position, size, effects, self._clock.now_ms()))
        self.bytes_held += size
        self.effects_held += effects

    @property
    def oldest(self) -> UnflushedBatch | None:
        """The batch that has waited longest; None if there is none."""
        return self._batches[0] if self._batches else None

    @property
    def newest(self) -> UnflushedBatch | None:
        """The batch that became durable last; None if there is none."""
        return self._batches[-1] if self._batches else None

    def fills_a_flush(self, limits: Limits) -> bool:
        """Say whether as much waits as one flush takes."""
        return self.bytes_held >= limits.flush_bytes_max or self.effects_held >= limits.flush_effects_max

    def flush_end(self, limits: Limits) -> int | None:
        """Return the position up to which the next flush goes; None if there is no batch.

        A flush is bounded in bytes, and also in effects, since each effect may change another stream.
        """
        through, size, effects = None, 0, 0
        for one in self._batches:
            size, effects = size + one.size, effects + one.effects
            over = size > limits.flush_bytes_max or effects > limits.flush_effects_max
            if through is not None and over:  # the first batch is always taken, or a large one would never go
                break
            through = one.position
        return through

    def flushed(self, through: int) -> None:
        """Drop the batches up to a position: they are in the bucket."""
        while self._batches and self._batches[0].position <= through:
            batch = self._batches.popleft()
            self.bytes_held -= batch.size
            self.effects_held -= batch.effects
