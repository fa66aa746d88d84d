"""A token bucket: so many at once, and so many per second after that."""


class TokenBucket:
    """Holds up to ``burst`` tokens, and gets ``per_second`` new ones; time is passed in.

    ``taken`` counts what was taken here; what others have taken of the same rate is ``spend`` by them.
    """

    __slots__ = ("_at_ms", "_burst", "_per_ms", "_tokens", "taken")

    def __init__(self, per_second: float, burst: float, now_ms: int) -> None:
        self._per_ms = per_second / 1000
        self._burst = burst
        self._tokens = burst
        self._at_ms = now_ms
        self.taken = 0

    def change(self, per_second: float, burst: float) -> None:
        """Hold and get another number of tokens from now on."""
        self._per_ms = per_second / 1000
        self._burst = burst
        self._tokens = min(self._tokens, burst)

    def take(self, now_ms: int) -> float:
        """Take a token and return 0, or return the seconds until there is one; a clock set back adds none."""
        tokens = self._tokens
        if now_ms != self._at_ms:
            if now_ms > self._at_ms:
                tokens = min(self._burst, tokens + (now_ms - self._at_ms) * self._per_ms)
            self._at_ms = now_ms
        if tokens >= 1:
            self._tokens = tokens - 1
            self.taken += 1
            return 0.0
        self._tokens = tokens
        return (1 - tokens) / self._per_ms / 1000

    def spend(self, count: int, debt_bursts_max: int, now_ms: int) -> None:
        """Remove tokens that others have taken; what is missing is a debt of at most so many bursts."""
        gained = max(now_ms - self._at_ms, 0) * self._per_ms
        self._at_ms = now_ms
        self._tokens = max(min(self._burst, self._tokens + gained) - count, -debt_bursts_max * self._burst)
