from durable_sessions.clock import ManualClock
from durable_sessions.http.api.cursor import Cursors


class FixedIds:
    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def token(self, prefix: str) -> str:
        return prefix

    def fraction(self) -> float:
        return self._fraction


EPOCH_MS = 1_728_432_000_000


def test_steps_of_twenty_seconds_since_the_epoch() -> None:
    clock = ManualClock(EPOCH_MS)
    cursors = Cursors(clock, FixedIds(0))
    assert cursors.now() == 0
    clock.advance(19.999)
    assert cursors.now() == 0
    clock.advance(0.001)
    assert cursors.after(None) == 1


def test_a_client_that_is_level_or_ahead_is_always_moved_on() -> None:
    for fraction in (0.0, 0.5, 0.999999):
        cursors = Cursors(ManualClock(EPOCH_MS + 20_000 * 1000), FixedIds(fraction))
        assert cursors.after("999") == 1000
        for seen in (1000, 1001, 5000):
            assert seen < cursors.after(str(seen)) <= seen + 180


def test_what_is_not_a_cursor_counts_as_none() -> None:
    cursors = Cursors(ManualClock(EPOCH_MS + 20_000 * 1000), FixedIds(0))
    for sent in ("", "abc", "-5", "1e9", "٣", "9" * 16):
        assert cursors.after(sent) == 1000
