"""What one flush takes of the batches that wait for it."""

from dataclasses import replace

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.backlog import FlushBacklog, UnflushedBatch

LIMITS = replace(DEFAULT_LIMITS, flush_bytes_max=100, flush_effects_max=10)


def backlog(*batches: tuple[int, int]) -> FlushBacklog:
    """Return batches with these sizes and effects, at the positions 20, 40 and so on."""
    waiting = FlushBacklog(ManualClock(1_000))
    for count, (size, effects) in enumerate(batches, 1):
        waiting.add(20 * count, size, effects)
    return waiting


@pytest.mark.parametrize(
    ("batches", "through"),
    [
        ((), None),
        (((60, 1), (40, 1)), 40),
        (((60, 1), (41, 1)), 20),
        (((1, 5), (1, 5)), 40),
        (((1, 5), (1, 6)), 20),
        (((101, 11), (1, 1)), 20),
        (((0, 0), (0, 0)), 40),
    ],
    ids=["none", "bytes-fit", "bytes-over", "effects-fit", "effects-over", "one-too-large", "empty"],
)
def test_a_flush_takes_what_fits_and_at_least_one_batch(
    batches: tuple[tuple[int, int], ...], through: int | None
) -> None:
    assert backlog(*batches).flush_end(LIMITS) == through


@pytest.mark.parametrize(
    ("batches", "fills"),
    [
        ((), False),
        (((60, 1), (39, 1)), False),
        (((60, 1), (40, 1)), True),
        (((1, 5), (1, 4)), False),
        (((1, 5), (1, 5)), True),
    ],
    ids=["none", "bytes-below", "bytes", "effects-below", "effects"],
)
def test_a_flush_is_due_when_as_much_waits_as_it_takes(
    batches: tuple[tuple[int, int], ...], *, fills: bool
) -> None:
    waiting = backlog(*batches)
    assert waiting.fills_a_flush(LIMITS) is fills
    waiting.flushed(20)
    assert not waiting.fills_a_flush(LIMITS)


def test_what_was_flushed_no_longer_counts() -> None:
    waiting = backlog((10, 1), (20, 1), (30, 1))
    assert (waiting.bytes_held, waiting.effects_held) == (60, 3)
    waiting.flushed(40)
    assert (waiting.bytes_held, waiting.effects_held) == (30, 1)
    assert waiting.oldest == waiting.newest == UnflushedBatch(60, 30, 1, 1_000)


def test_nothing_is_left_when_all_is_flushed() -> None:
    waiting = backlog((10, 1), (20, 1))
    waiting.flushed(40)
    waiting.flushed(40)
    assert (waiting.bytes_held, waiting.oldest, waiting.newest) == (0, None, None)
