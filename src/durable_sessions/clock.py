"""The time seam: everything that needs the time is handed a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells wall-clock time; tests hand in one that they move themselves."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's own wall clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Move the clock forward (or, for clock-jump tests, backward)."""
        self._now_ms += int(seconds * 1000)
