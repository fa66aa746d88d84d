"""The outbox as state: entries in order for each target, numbers that are never used again, a limit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import OverloadedError, StreamClosedError
from durable_sessions.streams import effects, outbox_intake
from durable_sessions.streams.effects import (
    Effect,
    OutboxAdded,
    OutboxDelivered,
    RecordsAppended,
    StreamEffect,
    SubscriptionEffect,
)
from durable_sessions.streams.outbox import (
    ENTRY_BYTES,
    OwedRecord,
    PartitionOutbox,
    RecordId,
    without_delivered,
)
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

A, B = Key("", "audit/a"), Key("", "audit/b")
MANY = 10**9


def outbox_of(applied: "list[Effect]") -> PartitionOutbox:
    state = State()
    state.outbox.source = "log_1"
    for effect in applied:
        state.apply(effect)
    return state.outbox


def owed(outbox: PartitionOutbox) -> list[tuple[Key, int, bytes]]:
    return [(one.target, one.id.number, one.data) for line in outbox.pending() for one in line]


def test_entries_wait_in_order_for_each_target_until_they_are_delivered() -> None:
    outbox = outbox_of([])
    for effect in outbox.owe([(A, b"1"), (B, b"2"), (A, b"3")], MANY):
        outbox.apply(effect)
    assert owed(outbox) == [(A, 1, b"1"), (A, 3, b"3"), (B, 2, b"2")]
    outbox.apply(OutboxDelivered(*A, 1))
    assert owed(outbox) == [(A, 3, b"3"), (B, 2, b"2")]
    outbox.apply(OutboxDelivered(*A, 3))
    outbox.apply(OutboxDelivered(*B, 2))
    assert not len(outbox)
    assert outbox.bytes_held == 0
    assert outbox.owe([(A, b"4")], MANY)[0].number == 4


def test_a_record_carries_the_lineage_of_its_log() -> None:
    (added,) = outbox_of([]).owe([(A, b"1")], MANY)
    assert added.source == "log_1"


def test_entries_are_limited_in_bytes() -> None:
    outbox = outbox_of([])
    size = ENTRY_BYTES + len(A.path) + 10
    for effect in outbox.owe([(A, bytes(10))] * 3, 3 * size):
        outbox.apply(effect)
    assert outbox.bytes_held == 3 * size
    with pytest.raises(OverloadedError, match="outbox_bytes_max"):
        outbox.owe([(A, b"")], 3 * size)
    outbox.apply(OutboxDelivered(*A, 1))
    with pytest.raises(OverloadedError):
        outbox.owe([(A, bytes(11))], 3 * size)
    outbox.owe([(A, bytes(10))], 3 * size)


def test_no_lower_number_is_given_out() -> None:
    outbox = outbox_of([])
    outbox.number_from(500)
    assert outbox.owe([(A, b"")], MANY)[0].number == 500
    outbox.number_from(3)
    assert outbox.next_number == 500


changes = st.lists(st.tuples(st.sampled_from([A, B]), st.none() | st.integers(0, 3)), max_size=30)


@given(changes, st.data())
def test_a_snapshot_and_what_a_flush_keeps_give_the_same_outbox(
    steps: "list[tuple[Key, int | None]]", data: st.DataObject
) -> None:
    outbox, applied = outbox_of([]), list[Effect]()
    for target, deliver in steps:
        if deliver is None:
            made: list[Effect] = [*outbox.owe([(target, b"r%d" % outbox.next_number)], MANY)]
        else:
            line = [one for line in outbox.pending() for one in line if one.target == target]
            made = [OutboxDelivered(*target, one.id.number) for one in line[deliver : deliver + 1]]
        for effect in made:
            outbox.apply(effect)  # type: ignore[arg-type]  # only those of the outbox are made
        applied += made
    cut = data.draw(st.integers(0, len(applied)))
    flushed = outbox_of(without_delivered(applied[:cut]))
    restored = outbox_of([*flushed.snapshot(), *without_delivered(applied[cut:])])
    for other in (outbox_of(without_delivered(applied)), outbox_of([*outbox.snapshot()]), restored):
        assert sorted(owed(other)) == sorted(owed(outbox))
        assert other.bytes_held == outbox.bytes_held
        assert other.next_number == outbox.next_number
    assert len(without_delivered(applied)) <= len(applied)


def test_effects_survive_the_codec_and_older_programs_refuse_them() -> None:
    older = msgspec.msgpack.Decoder(StreamEffect | SubscriptionEffect)
    for effect in (OutboxAdded(7, "log_1", *A, b"x"), OutboxDelivered(*A, 7)):
        encoded = effects.encode(effect)
        assert effects.decode(encoded) == effect
        with pytest.raises(msgspec.ValidationError):
            older.decode(encoded)


# The other side -------------------------------------------------------------------------


def record(number: int, source: str = "log_1", data: bytes = b"{}") -> OwedRecord:
    return OwedRecord(A, RecordId(source, number), data)


def take(state: State, taken: OwedRecord) -> list[Effect]:
    made = outbox_intake.take(state, taken, 1)
    for effect in made:
        state.apply(effect)
    return made


def test_a_record_is_taken_once_and_its_stream_is_made() -> None:
    state = State()
    assert len(take(state, record(3))) == 2
    assert take(state, record(3)) == []
    assert take(state, record(2)) == [], "an outbox delivers in order, so this one is repeated, too"
    (appended,) = take(state, record(5, data=b'{"b":1}'))
    assert isinstance(appended, RecordsAppended)
    assert appended.data == b'{"b":1},'
    stream = state.get(A)
    assert stream is not None
    assert stream.tail == 2


def test_records_of_several_outboxes_have_numbers_of_their_own() -> None:
    state = State()
    take(state, record(9, "log_1"))
    assert take(state, record(1, "log_2"))
    assert not take(state, record(1, "log_1"))


def test_a_closed_stream_takes_nothing_new() -> None:
    state = State()
    take(state, record(1))
    stream = state.get(A)
    assert stream is not None
    state.apply(RecordsAppended(stream.id, 1, 1, (), None, None, True, b""))
    assert take(state, record(1)) == []
    with pytest.raises(StreamClosedError):
        take(state, record(2))
