"""Times and durations for people."""

from datetime import UTC, datetime

from durable_sessions.times import parse_rfc3339

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def moment(value: object) -> int | None:
    """Return the milliseconds since the Unix epoch of a time in an event, None if it is not one."""
    at_ms = parse_rfc3339(value) if isinstance(value, str) else None
    return at_ms if at_ms is not None and at_ms >= 0 else None


def day(at_ms: int) -> str:
    """Return the day of a time, in UTC."""
    return f"{_at(at_ms):%Y-%m-%d}"


def clock(at_ms: int) -> str:
    """Return the time of day, in UTC."""
    return f"{_at(at_ms):%H:%M:%S}"


def minute(at_ms: int) -> str:
    """Return day and time up to the minute, in UTC."""
    return f"{_at(at_ms):%Y-%m-%d %H:%M}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def duration(ms: float) -> str:
    """Return a duration in its two largest units, such as ``2m 5s``."""
    if ms < SECOND:
        return f"{max(0, round(ms))}ms"
    if ms < 10 * SECOND:
        return f"{ms / SECOND:.1f}s"
    seconds = round(ms / SECOND)
    for larger, smaller, names in ((86_400, 3_600, "dh"), (3_600, 60, "hm"), (60, 1, "ms")):
        if seconds >= larger:
            rest = seconds % larger // smaller
            return f"{seconds // larger}{names[0]}" + (f" {rest}{names[1]}" if rest else "")
    return f"{seconds}s"


def ago(at_ms: int, now_ms: int) -> str:
    """Return how long ago a time was, such as ``5m ago``; from a month on the day."""
    passed = now_ms - at_ms
    if passed < -MINUTE or passed >= 30 * DAY:
        return day(at_ms)
    if passed < 5 * SECOND:
        return "now"
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")):
        if passed >= unit:
            return f"{passed // unit}{name} ago"
    return "now"
