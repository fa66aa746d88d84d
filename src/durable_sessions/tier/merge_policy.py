"""Chooses the segments to merge next, as a pure function of the manifest and the catalog."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.limits import Limits

ROW_COST = 512
"""Bytes of memory that a record may take in a merge besides its data; also bounds merges of tiny records."""
_TIER_FACTOR = 8
_TIERS = 3
"""Only segments of one tier are merged with each other, so that a record is rewritten about once per tier."""


class Candidate(NamedTuple):
    """A segment, the size of its records, and since when it has held records of removed streams."""

    info: SegmentInfo
    record_bytes: int
    dirty_since_ms: int | None = None

    @property
    def cost(self) -> int:
        """Roughly the memory that it takes in a merge."""
        return self.record_bytes + ROW_COST * self.info.rows


def day_of(path: str) -> date:
    """Return the date whose events the segment at this path holds."""
    return date.fromisoformat(path.split("/")[1].removeprefix("date="))


def rewrite_at_ms(dirty_since_ms: int, limits: Limits) -> int:
    """Return when a dirty object is rewritten.

    The first half of the time until it must be gone is for collecting other objects that become dirty;
    the second half is a reserve for a bucket that fails.
    """
    spare = max(0.0, limits.delete_within_seconds - limits.garbage_grace_seconds)
    return dirty_since_ms + int(spare * 1000 / 2)


def choose(candidates: Iterable[Candidate], now_ms: int, limits: Limits) -> list[SegmentInfo]:
    """Return the segments of one date that the next merge replaces; none if no merge is worthwhile.

    First come dirty segments that are due, longest dirty first, together with other dirty ones of that date;
    then small segments, if there are enough of similar size.
    """
    days: dict[date, list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: (one.info.first_at_ms, one.info.path)):
        days.setdefault(day_of(one.info.path), []).append(one)
    dirty = [_dirty(found, now_ms, limits) for found in days.values()]
    due = min((found for found in dirty if found), key=lambda found: found[0].dirty_since_ms or 0, default=[])
    if due:
        return _fitting(due, limits)
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    for day, found in days.items():
        for small in _tiers(found, limits, over=day < today - timedelta(days=1)):
            return _fitting(small, limits)
    return []


def _dirty(candidates: Sequence[Candidate], now_ms: int, limits: Limits) -> list[Candidate]:
    """Return the dirty segments of a date, longest dirty first, if the first of them is due."""
    dirty = [(one.dirty_since_ms, one) for one in candidates if one.dirty_since_ms is not None]
    dirty.sort(key=lambda pair: pair[0])
    if not dirty or now_ms < rewrite_at_ms(dirty[0][0], limits):
        return []
    return [one for _, one in dirty]


def _tiers(candidates: Sequence[Candidate], limits: Limits, *, over: bool) -> list[list[Candidate]]:
    """Return the groups of small segments that have enough members to be merged.

    Only segments of similar size are merged, so that a record is not copied again with every flush. A date
    that is over gets no more segments, so all its small ones are merged together.
    """
    small = [
        one
        for one in candidates
        if one.info.bytes < limits.compaction_small_bytes_max
        and one.cost <= limits.compaction_memory_bytes_max // 2
    ]
    if over:
        return [small] if len(small) > 1 else []
    tiers: list[list[Candidate]] = [[] for _ in range(_TIERS)]
    for one in small:
        tier, bound = 0, limits.compaction_small_bytes_max
        while tier < _TIERS - 1 and one.info.bytes < (bound := bound // _TIER_FACTOR):
            tier += 1
        tiers[tier].append(one)
    return [found for found in reversed(tiers) if len(found) >= limits.compaction_segments_min]


def _fitting(candidates: Sequence[Candidate], limits: Limits) -> list[SegmentInfo]:
    """Return the first segments, as many as one merge may read, and at least one."""
    chosen: list[SegmentInfo] = []
    size = cost = 0
    for one in candidates:
        size, cost = size + one.info.bytes, cost + one.cost
        fits = size <= limits.compaction_bytes_max and cost <= limits.compaction_memory_bytes_max
        if chosen and not fits:
            break
        chosen.append(one.info)
    return chosen
