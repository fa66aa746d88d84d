"""Cache cursors: time in steps of 20 seconds, which never go back for a client."""

from durable_sessions.clock import Clock
from durable_sessions.ids import Ids

_EPOCH_MS = 1_728_432_000_000  # 2024-10-09T00:00:00Z
_STEP_MS = 20_000
_JITTER_STEPS = 180


class Cursors:
    """Generates the cursors of live answers."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    def now(self) -> int:
        """Return the number of the current step."""
        return (self._clock.now_ms() - _EPOCH_MS) // _STEP_MS

    def after(self, sent: str | None) -> int:
        """Return the current step, or a later one if the client has seen that already."""
        current = self.now()
        if sent is None or not sent.isascii() or not sent.isdigit() or len(sent) > 15:
            return current
        seen = int(sent)
        return current if seen < current else seen + 1 + int(self._ids.fraction() * (_JITTER_STEPS - 1))
