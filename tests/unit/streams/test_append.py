from dataclasses import replace

import pytest

from durable_sessions.errors import (
    ContentTypeMismatchError,
    EmptyBodyError,
    InvalidJsonError,
    MissingContentTypeError,
    NewEpochSequenceError,
    PreconditionNotMetError,
    ProducerGapError,
    SequenceConflictError,
    StaleEpochError,
    StreamClosedError,
    StreamNotFoundError,
    TooManyProducersError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from tests.unit.streams.driver import Machine, producer


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.create("s", content_type="text/plain")
    return machine


def test_bytes_move_the_tail_by_bytes_and_messages_by_messages(machine: Machine) -> None:
    assert machine.append("s", b"hello").tail == 5
    machine.create("j", content_type="application/json")
    assert machine.append("j", b'[{"a":1},2]', "application/json").tail == 2


def test_a_missing_stream_an_empty_body_and_a_wrong_type_are_refused(machine: Machine) -> None:
    with pytest.raises(StreamNotFoundError):
        machine.append("other")
    with pytest.raises(EmptyBodyError):
        machine.append("s", b"")
    with pytest.raises(MissingContentTypeError):
        machine.append("s", content_type=None)
    with pytest.raises(ContentTypeMismatchError):
        machine.append("s", content_type="text/html")
    assert machine.append("s", b"x", "TEXT/plain; charset=utf-8").tail == 1


def test_stream_seq_compares_bytewise_and_must_grow(machine: Machine) -> None:
    machine.append("s", seq="2")
    with pytest.raises(SequenceConflictError):
        machine.append("s", seq="10")
    with pytest.raises(SequenceConflictError):
        machine.append("s", seq="2")
    machine.append("s", seq="20")


def test_a_producer_is_exactly_once(machine: Machine) -> None:
    first = machine.append("s", b"a", producer=producer(0))
    second = machine.append("s", b"b", producer=producer(1))
    again = machine.append("s", b"a", producer=producer(0))
    assert (first.duplicate, second.duplicate, again.duplicate) == (False, False, True)
    assert again.tail == 2
    assert again.producer == producer(1), "the highest accepted number, not the one sent"
    with pytest.raises(ProducerGapError) as gap:
        machine.append("s", producer=producer(3))
    assert gap.value.fields == {"received": 3, "expected": 2}


def test_an_unknown_producer_starts_at_zero_in_any_epoch(machine: Machine) -> None:
    with pytest.raises(ProducerGapError):
        machine.append("s", producer=producer(1))
    assert not machine.append("s", producer=producer(0, epoch=7)).duplicate


def test_epochs_fence(machine: Machine) -> None:
    machine.append("s", producer=producer(0))
    with pytest.raises(NewEpochSequenceError):
        machine.append("s", producer=producer(1, epoch=1))
    machine.append("s", producer=producer(0, epoch=1))
    with pytest.raises(StaleEpochError) as stale:
        machine.append("s", producer=producer(1, epoch=0))
    assert stale.value.fields["current"] == 1


def test_a_retry_with_a_sequence_is_a_duplicate_before_it_is_a_conflict(machine: Machine) -> None:
    machine.append("s", producer=producer(0), seq="a")
    assert machine.append("s", producer=producer(0), seq="a").duplicate


def test_a_failed_append_does_not_advance_its_producer() -> None:
    machine = Machine()
    machine.create("j", content_type="application/json")
    with pytest.raises(InvalidJsonError):
        machine.append("j", b"{", "application/json", producer=producer(0), seq="a")
    assert not machine.append("j", b"{}", "application/json", producer=producer(0), seq="a").duplicate


def test_producers_at_the_limit_and_one_past_it() -> None:
    machine = Machine(limits=replace(DEFAULT_LIMITS, producers_per_stream_max=2))
    machine.create("s", content_type="text/plain")
    for name in ("a", "b"):
        machine.append("s", producer=producer(0, name=name))
    with pytest.raises(TooManyProducersError):
        machine.append("s", producer=producer(0, name="c"))
    machine.append("s", producer=producer(1, name="a"))


def test_a_closed_stream_takes_nothing_but_the_repeat_of_its_close(machine: Machine) -> None:
    closed = machine.append("s", b"end", producer=producer(0), close=True)
    assert closed.closed
    assert closed.tail == 3
    repeat = machine.append("s", b"another body", producer=producer(0))
    assert repeat.duplicate
    assert repeat.closed
    for refused in (
        {"body": b"x"},
        {"body": b"x", "close": True},
        {"body": b"x", "producer": producer(1)},
        {"body": b"", "close": True, "producer": producer(0, name="q")},
        {"body": b"x", "content_type": "text/html"},
    ):
        with pytest.raises(StreamClosedError):
            machine.append("s", **refused)
    bare = machine.append("s", b"", None, close=True)
    assert bare.closed
    assert bare.tail == 3


def test_close_only_ignores_the_content_type_and_keeps_the_tail(machine: Machine) -> None:
    machine.append("s", b"abc")
    result = machine.append("s", b"", "image/png", close=True)
    assert (result.tail, result.closed, result.duplicate) == (3, True, False)


def test_close_only_by_a_producer_is_idempotent(machine: Machine) -> None:
    machine.append("s", b"", None, close=True, producer=producer(0))
    assert machine.append("s", b"", None, close=True, producer=producer(0)).duplicate


def test_an_append_can_be_made_conditional_on_the_tail(machine: Machine) -> None:
    machine.append("s", b"abc", if_tail=frozenset({0}))
    with pytest.raises(PreconditionNotMetError) as failed:
        machine.append("s", b"d", if_tail=frozenset({0}))
    assert failed.value.fields["tail"] == "0000000000000000_0000000000000003"
    assert machine.append("s", b"d", if_tail=frozenset({0, 3})).tail == 4


def test_the_retry_of_a_conditional_append_is_a_duplicate(machine: Machine) -> None:
    machine.append("s", b"abc", if_tail=frozenset({0}), producer=producer(0))
    assert machine.append("s", b"abc", if_tail=frozenset({0}), producer=producer(0)).duplicate
