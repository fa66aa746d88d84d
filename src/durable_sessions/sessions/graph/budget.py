"""What a session may use, and what it has used: limits, counts, and when a limit is reached."""

from hashlib import blake2b

import msgspec

from durable_sessions.sessions.graph.happened import (
    CALLS,
    MODEL_REQUEST_END,
    RESULTS,
    SESSION_ERROR,
    Happened,
)
from durable_sessions.sessions.graph.schemas import MEASURES, BudgetSet

MEASURED = CALLS | RESULTS | {MODEL_REQUEST_END, SESSION_ERROR}
"""The free types that a budget counts."""


class Trip(msgspec.Struct, frozen=True):
    """A limit that was reached; ``id`` is the event that says so, empty before it is written."""

    limit: str
    max: int | float
    value: int | float
    id: str = ""


class CostLimit(msgspec.Struct, frozen=True, array_like=True):
    """A limit on cost that is no event: since when, behind how many events, and how much; None lifts it."""

    position: int
    at_ms: int
    usd: float | None


class Meter(msgspec.Struct, omit_defaults=True):
    """Limits, and counts since the first of them was set; ``through`` is behind the last counted event.

    ``set_by`` has the event that has set each limit, as far as it was an event.
    ``cost_limits`` are those that came with the session's record, in order. Folds take them from here: no
    event tells them.
    """

    since_ms: int
    limits: dict[str, int | float] = {}
    tokens: int = 0
    usd: float = 0.0
    tool_calls: int = 0
    consecutive_errors: int = 0
    repeated_calls: int = 0
    last_call: str = ""
    is_cost_known: bool = False
    through: int = 0
    cost_limits: list[CostLimit] = []
    set_by: dict[str, str] = {}

    def set(self, event: BudgetSet, by: str) -> None:
        """Set or lift limits; the counts go on. ``by`` is the id of the event."""
        for measure, limit in event.limits().items():
            if limit is None:
                self.limits.pop(measure, None)
                self.set_by.pop(measure, None)
            else:
                self.limits[measure] = limit
                self.set_by[measure] = by

    def raises(self, event: BudgetSet) -> bool:
        """Say whether an event raises or lifts a limit, which takes a judge."""
        return any(
            measure in self.limits and (limit is None or limit > self.limits[measure])
            for measure, limit in event.limits().items()
        )

    def limit_cost(self, limit: CostLimit) -> None:
        """Set or lift the limit on cost as the session's record says."""
        self.cost_limits.append(limit)
        self.through = max(self.through, limit.position)
        self.set_by.pop("usd", None)
        if limit.usd is None:
            self.limits.pop("usd", None)
        else:
            self.limits["usd"] = limit.usd

    def raises_cost(self, usd: float | None) -> bool:
        """Say whether a limit on cost, or none, is more than there is."""
        return "usd" in self.limits and (usd is None or usd > self.limits["usd"])

    def count(self, happened: Happened) -> None:
        """Count a free event."""
        kind = happened.type
        self.through = happened.position + 1
        if kind in CALLS:
            self.tool_calls += 1
            call = _digest(happened)
            self.repeated_calls = self.repeated_calls + 1 if call == self.last_call else 1
            self.last_call = call
        elif kind in RESULTS:
            self.consecutive_errors = self.consecutive_errors + 1 if happened.members.failed else 0
        elif kind == SESSION_ERROR:
            self.consecutive_errors += 1
        elif kind == MODEL_REQUEST_END:
            used = happened.usage()
            self.tokens += used.tokens
            self.usd += used.cost_usd
            self.is_cost_known = self.is_cost_known or happened.cost_usd is not None

    def used(self, measure: str, now_ms: int) -> int | float:
        """Return how much of a measure has been used."""
        if measure == "seconds":
            return max(0, now_ms - self.since_ms) / 1000
        value: int | float = getattr(self, measure)
        return value

    def reached(self, now_ms: int) -> Trip | None:
        """Return the first limit that has been reached."""
        for measure in MEASURES:
            if self.is_reached(measure, now_ms):
                return Trip(measure, self.limits[measure], self.used(measure, now_ms))
        return None

    def is_reached(self, measure: str, now_ms: int) -> bool:
        """Say whether there is a limit on a measure, and it has been reached."""
        most = self.limits.get(measure)
        return most is not None and self.used(measure, now_ms) >= most


def _digest(happened: Happened) -> str:
    """Return what tells one call from another: its name and its input, as they were sent."""
    members = happened.members
    digest = blake2b(bytes(members.name), digest_size=8)
    digest.update(b"\0" + bytes(members.input))
    return digest.hexdigest()
