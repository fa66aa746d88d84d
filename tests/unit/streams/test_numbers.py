"""The numbers that streams get: never one that another partition gives."""

import pytest

from durable_sessions.errors import OverloadedError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams import create
from durable_sessions.streams.create import Create
from durable_sessions.streams.effects import StreamCreated
from durable_sessions.streams.state import SPARE_NUMBERS, State
from durable_sessions.streams.stream import Key

FIVE = PartitionId(5, of=8)


def created(number: int, path: str) -> StreamCreated:
    return StreamCreated(number, "default", path, "text/plain", 0)


def test_numbers_go_up_within_their_partition() -> None:
    state = State()
    assert state.next_id == 1
    state.next_stream = FIVE.streams.start
    for count in range(3):
        state.apply(created(state.next_id, f"s{count}"))
    assert list(state.by_id) == [(5 << 40) + 1, (5 << 40) + 2, (5 << 40) + 3]


@pytest.mark.parametrize("other", [PartitionId(0, of=8), PartitionId(7, of=8)])
def test_a_stream_that_another_partition_numbered_moves_nothing(other: PartitionId) -> None:
    state = State()
    state.next_stream = FIVE.streams.start
    state.apply(created(other.streams.start + 9, "moved here"))
    assert state.next_id == FIVE.streams.start


@pytest.mark.parametrize("partition", [PartitionId(), FIVE])
def test_a_partition_that_has_given_out_its_numbers_refuses_new_streams(partition: PartitionId) -> None:
    state = State()
    state.next_stream = partition.streams.stop - SPARE_NUMBERS - 1
    key = Key("default", "last")
    effects, _ = create.decide(state, key, Create(), 0, DEFAULT_LIMITS, None)
    for effect in effects:
        state.apply(effect)
    assert state.next_stream == partition.streams.stop - SPARE_NUMBERS
    with pytest.raises(OverloadedError, match="streams that its partition can number"):
        create.decide(state, Key("default", "one more"), Create(), 0, DEFAULT_LIMITS, None)
    assert create.decide(state, key, Create(), 0, DEFAULT_LIMITS, None)[0] == [], "what exists goes on"
