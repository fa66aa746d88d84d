import pytest

from durable_sessions.rendering.human_times import DAY, HOUR, MINUTE, ago, duration, moment

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_500, "1.5s"),
        (59_400, "59s"),
        (125_000, "2m 5s"),
        (3_600_000, "1h"),
        (90 * MINUTE, "1h 30m"),
        (26 * HOUR, "1d 2h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [(0, "now"), (30_000, "30s ago"), (5 * MINUTE, "5m ago"), (3 * HOUR, "3h ago"), (2 * DAY, "2d ago")],
)
def test_how_long_ago(passed: int, text: str) -> None:
    assert ago(NOW - passed, NOW) == text


def test_far_times_are_days() -> None:
    assert ago(NOW - 40 * DAY, NOW) == "2026-12-06"
    assert ago(NOW + DAY, NOW) == "2027-01-16"


@pytest.mark.parametrize("value", [None, 7, "", "yesterday", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"])
def test_what_is_no_time(value: object) -> None:
    assert moment(value) is None
