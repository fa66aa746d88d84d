"""Effects that contradict the state: what takes their place, so that all that follows can be applied."""

from collections.abc import Sequence

import pytest

from durable_sessions.bucket.records import AppendRun
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage import batch
from durable_sessions.streams.effects import (
    EMPTIED,
    HELD,
    Acked,
    Effect,
    Linked,
    OutboxAdded,
    OutboxDelivered,
    PathFreed,
    RecordsAppended,
    SlotChange,
    SlotsChanged,
    StreamCreated,
    StreamRemoved,
    StreamTold,
    StreamTouched,
    SubscriptionCreated,
    SubscriptionRemoved,
    Unlinked,
    WakeClaimed,
    WakeEnded,
    Woken,
)
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.tools.conflicts import (
    LOST_MESSAGE,
    Mended,
    Undecodable,
    clipped,
    decode_leniently,
    fill_acknowledged,
    markers,
    mend,
)

LOST = LOST_MESSAGE + b","
SUB = ("default", "sub")
CONFIG = b'{"type":"pull-wake","lease_ttl_ms":1000,"wake_stream":"wakes"}'


def created(stream: int, path: str = "s", kind: str = "application/json", **options: object) -> StreamCreated:
    return StreamCreated(stream, "default", path, kind, 1_000, **options)  # type: ignore[arg-type]


def appended(stream: int, first: int, *messages: bytes, closed: bool = False) -> RecordsAppended:
    data = b"".join(message + b"," for message in messages)
    lengths = tuple([len(message) + 1 for message in messages])
    return RecordsAppended(stream, first, 2_000, lengths, None, None, closed, data)


def raw(stream: int, first: int, data: bytes) -> RecordsAppended:
    return RecordsAppended(stream, first, 2_000, (), None, None, False, data)


def subscribed(*more: Effect) -> list[Effect]:
    created_sub = SubscriptionCreated(*SUB, CONFIG, "http://x", 1_000)
    return [created(1), created_sub, Linked(*SUB, (("s", True, 0, 1),)), *more]


def after(*effects: Effect) -> State:
    """Return the state after effects that do not contradict each other."""
    state = State()
    for effect in effects:
        assert mend(state, effect) == Mended([effect])
    return state


def replay(effects: Sequence[Effect]) -> State:
    state = State()
    for effect in effects:
        state.apply(effect)
    return state


# Records --------------------------------------------------------------------------------


def test_lost_messages_are_marked_in_their_place() -> None:
    state = after(created(1), appended(1, 0, b"0"))
    effect = appended(1, 3, b"3")
    mended = mend(state, effect)
    assert mended.marked == [(1, 1, 3)]
    filler, kept = mended.effects
    assert isinstance(filler, RecordsAppended)
    assert (filler.first, filler.data, filler.lengths) == (1, LOST * 2, (len(LOST),) * 2)
    assert kept is effect
    assert state.by_id[1].tail == 4


def test_lost_bytes_are_zeros() -> None:
    state = after(created(1, kind="text/plain"), raw(1, 0, b"ab"))
    filler, _ = mend(state, raw(1, 5, b"f")).effects
    assert isinstance(filler, RecordsAppended)
    assert (filler.first, filler.data) == (2, b"\0\0\0")
    assert state.by_id[1].tail == 6


def test_markers_come_in_appends_of_bounded_size() -> None:
    messages = DEFAULT_LIMITS.append_messages_max
    runs = list(markers(7, 7 + messages + 1, 5, json=True))
    assert [(run.first, len(run.lengths)) for run in runs] == [(7, messages), (7 + messages, 1)]
    size = DEFAULT_LIMITS.append_body_bytes_max
    assert [len(run.data) for run in markers(0, size + 3, 5, json=False)] == [size, 3]
    assert list(markers(3, 3, 5, json=True)) == []


def test_what_is_there_already_is_left_out_and_the_rest_kept() -> None:
    state = after(created(1), appended(1, 0, b"0", b"1"))
    assert mend(state, appended(1, 0, b"0", b"1")).repeated
    mended = mend(state, appended(1, 1, b"1", b"2"))
    assert mended.effects == [appended(1, 2, b"2")]
    assert not mended.marked
    assert state.by_id[1].tail == 3


def test_clipping() -> None:
    run = AppendRun(10, 5, (2, 3, 4), b"a,bb,ccc,")
    assert clipped(run, 11, 12) == AppendRun(11, 5, (3,), b"bb,")
    assert clipped(run, 0, 99) == run
    assert clipped(AppendRun(10, 5, (), b"abcdef"), 12, 14) == AppendRun(12, 5, (), b"cd")


@pytest.mark.parametrize(
    "effect",
    [
        RecordsAppended(1, 0, 5, (1, 2), None, None, False, b"0,"),
        RecordsAppended(1, 0, 5, (), None, None, False, b"0,"),
    ],
)
def test_an_append_that_does_not_add_up_is_dropped(effect: RecordsAppended) -> None:
    state = after(created(1))
    assert mend(state, effect).effects == ()
    assert state.by_id[1].tail == 0


def test_a_closed_stream_takes_nothing_more() -> None:
    state = after(created(1), appended(1, 0, b"0", closed=True))
    assert mend(state, appended(1, 1, b"1")).effects == ()
    assert mend(state, appended(1, 1, closed=True)).repeated


# Streams --------------------------------------------------------------------------------


def test_a_stream_without_its_creation_is_found_again_under_another_name() -> None:
    state = State()
    mended = mend(state, appended(7, 2, b"2"), "default")
    assert mended.marked == [(7, 0, 2)]
    stream = state.get(Key("default", "lost-and-found/7"))
    assert stream is not None
    assert (stream.id, stream.tail, stream.is_json) == (7, 3, True)
    after_all = replay(mended.effects)
    assert after_all.by_id.keys() == state.by_id.keys()
    mend(state, raw(8, 0, b"x"), "default")
    assert state.by_id[8].content_type == "application/octet-stream"


def test_a_removed_stream_is_not_found_again() -> None:
    state = after(created(1), StreamRemoved(1))
    for effect in (appended(1, 0, b"0"), StreamRemoved(1), created(1)):
        assert mend(state, effect).repeated
    assert mend(state, StreamTouched(1, 5)).effects == ()
    assert not state.by_id


def test_a_path_that_is_taken_means_that_a_removal_is_lost() -> None:
    state = after(created(1))
    again = created(2)
    assert mend(state, again).effects == [StreamRemoved(1), again]
    assert list(state.by_id) == [2]


def test_an_older_creation_at_a_path_was_followed_by_a_removal() -> None:
    state = after(created(5))
    assert mend(state, created(3)).repeated
    assert mend(state, appended(3, 0, b"0")).repeated
    assert list(state.by_id) == [5]


def test_a_path_whose_stream_has_forks_is_not_given_away() -> None:
    state = after(created(1), created(2, "fork", parent=1))
    assert mend(state, created(3)).effects == ()
    assert sorted(state.by_id) == [1, 2]


def test_a_fork_without_its_source_stands_alone() -> None:
    state = State()
    mended = mend(state, created(2, "fork", parent=1, base=2))
    assert mended.marked == [(2, 0, 2)]
    assert (state.by_id[2].parent, state.by_id[2].base, state.by_id[2].tail) == (None, 0, 2)


def test_a_source_reaches_to_where_it_was_forked() -> None:
    state = after(created(1), appended(1, 0, b"0"))
    assert mend(state, created(2, "fork", parent=1, base=3)).marked == [(1, 1, 3)]
    assert state.by_id[1].tail == 3
    assert state.by_id[2].parent == 1


def test_removals_follow_the_forks_that_there_are() -> None:
    state = after(created(1), created(2, "fork", parent=1))
    assert mend(state, StreamRemoved(1)).effects == [StreamRemoved(1, soft=True)]
    assert mend(state, StreamRemoved(1)).effects == []
    state = after(created(1))
    assert mend(state, StreamRemoved(1, soft=True)).effects == [StreamRemoved(1)]
    assert not state.by_id


@pytest.mark.parametrize("effect", [appended(7, 0), appended(7, 0, closed=True)])
def test_a_stream_of_which_only_a_close_is_left_is_not_found_again(effect: RecordsAppended) -> None:
    state = State()
    mended = mend(state, effect)
    assert (mended.effects, mended.problem) == ((), "stream 7 does not exist")
    assert not state.by_id


def test_a_path_in_lost_and_found_is_not_given_out_twice() -> None:
    state = after(created(1, "lost-and-found/7"))
    assert mend(state, appended(7, 0, b"0"), "default").effects == ()
    assert list(state.by_id) == [1]


def test_a_path_is_freed_once_and_only_of_a_removed_stream() -> None:
    removed = StreamRemoved(1, soft=True)
    state = after(created(1), created(2, "fork", parent=1), removed)
    assert mend(state, PathFreed(1)) == Mended([PathFreed(1)])
    for effect in (PathFreed(1), PathFreed(9)):
        assert mend(state, effect).repeated
    state = after(created(1), created(2, "fork", parent=1))
    assert mend(state, PathFreed(1)).effects == [removed, PathFreed(1)]
    assert state.get(Key("default", "s")) is None
    assert state.by_id[1].freed, "its fork still reads its records"
    state = after(created(1))
    assert mend(state, PathFreed(1)).effects == [StreamRemoved(1)]
    assert not state.by_id


def test_slots_of_lost_records_are_not_held() -> None:
    held, emptied = SlotChange(0, "head", HELD), SlotChange(1, "head", EMPTIED)
    state = after(created(1), appended(1, 0, b"0"))
    mended = mend(state, SlotsChanged(1, 1, (held, emptied)))
    assert (mended.effects, mended.problem) == ([SlotsChanged(1, 1, (held,))], "its records are lost")
    assert mend(state, SlotsChanged(1, 1, (emptied,))).effects == ()
    assert mend(state, SlotsChanged(9, 1, (held,))).problem == "stream 9 does not exist"


# Subscriptions --------------------------------------------------------------------------


def test_subscriptions_that_contradict() -> None:
    state = after(*subscribed())
    again = SubscriptionCreated(*SUB, CONFIG, "http://y", 2_000)
    assert mend(state, again).effects == [SubscriptionRemoved(*SUB), again]
    assert mend(state, Unlinked(*SUB, ("s",))).effects == []
    assert mend(state, WakeEnded(*SUB)).effects == ()
    assert mend(state, WakeClaimed("default", "other", "w", 5)).effects == ()
    assert mend(state, SubscriptionCreated("default", "bad", b"{", "", 0)).effects == ()


def test_what_another_partition_told_needs_no_stream_here() -> None:
    told = StreamTold("default", "elsewhere", 3, 0, 5)
    assert mend(State(), told) == Mended([told])


def test_an_acknowledgement_without_a_wake_is_dropped() -> None:
    state = after(*subscribed())
    mended = mend(state, Acked(*SUB, {"s": 0}, 5))
    assert (mended.effects, mended.problem) == ((), "no wake is in flight")


def test_a_wake_whose_end_is_lost_ends_with_the_next() -> None:
    woken = Woken(*SUB, 2, "wake_2", {})
    state = after(*subscribed(Woken(*SUB, 1, "wake_1", {})))
    assert mend(state, woken).effects == [WakeEnded(*SUB), woken]
    mended = mend(state, Acked(*SUB, {"s": 0, "unknown": 3}, 5))
    assert mended.effects == [Acked(*SUB, {"s": 0}, 5)]


def test_acknowledged_records_are_not_given_out_again() -> None:
    state = after(*subscribed(appended(1, 0, b"0"), Woken(*SUB, 1, "w", {"s": 1}), Acked(*SUB, {"s": 4}, 9)))
    filled = fill_acknowledged(state)
    assert filled.marked == [(1, 1, 4)]
    assert state.by_id[1].tail == 4
    assert fill_acknowledged(state).effects == []


# The outbox -----------------------------------------------------------------------------


def test_an_outbox_whose_entries_are_lost_or_repeated() -> None:
    first, third = OutboxAdded(1, "log_1", "", "audit/a", b"1"), OutboxAdded(3, "log_1", "", "audit/a", b"3")
    state = after(first)
    again = mend(state, first)
    assert again.effects == ()
    assert again.repeated
    assert mend(state, third) == Mended([third]), "numbers need not follow one another"
    delivered = mend(state, OutboxDelivered("", "audit/a", 5))
    assert delivered.problem is not None
    assert not len(state.outbox)
    assert state.outbox.next_number == 6
    assert mend(state, OutboxDelivered("", "audit/b", 4)).problem is None


# Batches --------------------------------------------------------------------------------


def test_batches_are_decoded_as_far_as_possible() -> None:
    good = batch.encode(created(1))
    bad = b"\x02\x00\x00\x00\xc1\xc1"
    (_, first), (at, second), (_, third) = decode_leniently(good + bad + good)
    assert first == third == created(1)
    assert at == len(good)
    assert isinstance(second, Undecodable)
    *_, (at, cut) = decode_leniently(good + good[:-1])
    assert at == len(good)
    assert isinstance(cut, Undecodable)
    assert list(decode_leniently(b"")) == []
