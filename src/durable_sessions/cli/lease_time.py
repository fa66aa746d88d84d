"""When a lease ends, by the clock of this machine."""

import time
from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering import human_times


def is_over(lease: Mapping[str, Any]) -> bool:
    """Say whether its time is over: it stays its holder's, but anybody may wake the session."""
    return _end_ms(lease) <= _now_ms()


def end(lease: Mapping[str, Any]) -> str:
    """Return when it ends or has ended, in UTC; with the day, unless that is today."""
    at_ms = _end_ms(lease)
    day, clock = human_times.day(at_ms), human_times.clock(at_ms)
    return clock if day == human_times.day(_now_ms()) else f"{day} {clock}"


def _end_ms(lease: Mapping[str, Any]) -> int:
    return human_times.moment(lease["expires_at"]) or 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
