"""When a log has all that came after a flush."""

from durable_sessions.log import NEW_LOG_GAP, continues


def test_a_log_continues_a_flush_that_it_reaches_back_to_or_was_begun_on() -> None:
    assert continues(0, 0)
    assert continues(100, 100)
    assert not continues(101, 100)
    assert continues(100 + NEW_LOG_GAP, 100), "begun anew, nothing of it flushed"
    assert not continues(100 + NEW_LOG_GAP, 99), "another flush than the one that it was begun on"
    assert not continues(101 + NEW_LOG_GAP, 100), "its first segments are missing"
