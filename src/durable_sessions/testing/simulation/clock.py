"""Time and randomness of a simulated world, all from the seed."""

import random
from collections.abc import Callable

EPOCH_MS = 1_794_744_000_000


class SimulatedClock:
    """A wall clock that follows virtual time, and jumps when it is told to."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._ahead_ms = 0
        self._ahead_ms_max = 0

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch, as the simulated machine believes."""
        return self.true_ms() + self._ahead_ms

    def true_ms(self) -> int:
        """Return the same without the jumps: the clock of the bucket."""
        return EPOCH_MS + int(self._seconds() * 1000)

    def jump(self, seconds: float) -> None:
        """Set the machine's clock forward or backward."""
        self._ahead_ms += int(seconds * 1000)
        self._ahead_ms_max = max(self._ahead_ms_max, self._ahead_ms)

    def settle(self) -> None:
        """Set the clock to where it has been furthest ahead: times that were noted are past now, or soon."""
        self._ahead_ms = self._ahead_ms_max


class SeededIds:
    """Identifiers that only look unguessable."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def token(self, prefix: str) -> str:
        """Return ``prefix`` followed by 128 bits in hexadecimal."""
        return f"{prefix}{self._random.getrandbits(128):032x}"

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def salt(self) -> int:
        """Return 64 bits."""
        return self._random.getrandbits(64)
