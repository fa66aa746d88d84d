"""Times as they are written in headers and JSON."""

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def rfc3339(at_ms: int) -> str:
    """Return a time as text: UTC, with milliseconds."""
    return f"{_second(at_ms // 1000)}.{at_ms % 1000:03d}Z"


@lru_cache(maxsize=64)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat()


def parse_time(text: str) -> int | None:
    """Return the milliseconds of an RFC 3339 time, or of a day such as 2026-11-15, which begins in UTC."""
    return parse_rfc3339(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)


def parse_rfc3339(text: str) -> int | None:
    """Return the milliseconds since the Unix epoch of an RFC 3339 time, None if it is not one."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{time}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
        return int(at.timestamp()) * 1000 + int((fraction or "0").ljust(3, "0")[:3])
    except (ValueError, OverflowError):
        return None
