import pytest

from durable_sessions.access.rate import TokenBucket


def test_a_burst_then_the_rate() -> None:
    bucket = TokenBucket(per_second=2, burst=3, now_ms=0)
    assert [bucket.take(0) for _ in range(3)] == [0.0] * 3
    assert bucket.take(0) == pytest.approx(0.5)
    assert bucket.take(499) > 0
    assert bucket.take(501) == 0.0
    assert bucket.take(501) > 0


def test_waiting_as_long_as_told_is_enough() -> None:
    bucket = TokenBucket(per_second=0.1, burst=1, now_ms=1_000)
    assert bucket.take(1_000) == 0.0
    assert bucket.take(1_000) == pytest.approx(10.0)
    assert bucket.take(11_000) == 0.0


def test_no_more_than_the_burst_is_saved_up() -> None:
    bucket = TokenBucket(per_second=5, burst=5, now_ms=0)
    assert [bucket.take(10**9) == 0.0 for _ in range(6)] == [True] * 5 + [False]


def test_a_clock_that_is_set_back_neither_gives_nor_takes() -> None:
    bucket = TokenBucket(per_second=1, burst=1, now_ms=10_000)
    assert bucket.take(10_000) == 0.0
    assert bucket.take(0) == pytest.approx(1.0)
    assert bucket.take(1_000) == 0.0


def test_what_others_spend_is_missing_here_up_to_a_debt() -> None:
    bucket = TokenBucket(per_second=1, burst=4, now_ms=0)
    bucket.spend(3, 2, now_ms=0)
    assert bucket.take(0) == 0
    assert bucket.take(0) == 1
    assert bucket.taken == 1, "what others have taken is not counted here"
    bucket.spend(3, 2, now_ms=1_000)
    assert bucket.take(1_000) == 3, "first it gets what is new, then it pays"
    bucket.spend(1_000, 2, now_ms=1_000)
    assert bucket.take(1_000) == 9, "the debt ends at two bursts"
    bucket.spend(1, 2, now_ms=100_000)
    assert bucket.take(100_000) == 0
    bucket.spend(0, 2, now_ms=50_000)
    assert bucket.take(50_000) == 0, "a clock set back adds nothing, and takes nothing"
