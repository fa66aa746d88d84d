from dataclasses import replace

import pytest

from durable_sessions.errors import (
    ContentTypeMismatchError,
    ForkTooDeepError,
    InvalidForkError,
    InvalidJsonError,
    PathBlockedError,
    StreamExistsError,
    StreamNotFoundError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams.create import Fork
from tests.unit.streams.driver import Machine, producer


def test_creating_again_with_the_same_configuration_confirms() -> None:
    machine = Machine()
    first = machine.create("s", content_type="text/plain", ttl_seconds=60, body=b"abc")
    again = machine.create("s", content_type="TEXT/plain", ttl_seconds=60, body=b"ignored")
    assert (first.new, again.new) == (True, False)
    assert first.tail == again.tail == 3


@pytest.mark.parametrize(
    "other",
    [
        {"content_type": "text/html"},
        {"content_type": "text/plain", "ttl_seconds": 1},
        {"content_type": "text/plain", "expires_at_ms": 10**13},
        {"content_type": "text/plain", "closed": True},
        {},
    ],
)
def test_creating_again_with_another_configuration_is_refused(other: dict[str, object]) -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain")
    with pytest.raises(StreamExistsError):
        machine.create("s", **other)


def test_the_closed_state_belongs_to_the_configuration() -> None:
    machine = Machine()
    assert machine.create("s", closed=True, body=b"all").closed
    assert not machine.create("s", closed=True).new
    with pytest.raises(StreamExistsError, match="closed state"):
        machine.create("s")


def test_a_bad_body_creates_nothing() -> None:
    machine = Machine()
    with pytest.raises(InvalidJsonError):
        machine.create("j", content_type="application/json", body=b"{")
    assert not machine.effects
    assert machine.create("j", content_type="application/json", body=b"[]").tail == 0


def test_a_fork_begins_where_it_was_asked_to() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", body=b"abcdef")
    assert machine.create("tail", fork=Fork("s")).tail == 6
    assert machine.create("middle", fork=Fork("s", 2)).tail == 2
    assert machine.create("inside", fork=Fork("s", 0, 4)).tail == 4
    assert machine.create("with-body", fork=Fork("s", 0, 4), body=b"XY").tail == 6


def test_a_fork_of_a_fork_reaches_through() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", body=b"abcdef")
    machine.create("one", fork=Fork("s", 0, 4))
    assert machine.create("two", fork=Fork("one", 0, 2)).tail == 2
    with pytest.raises(InvalidForkError):
        machine.create("three", fork=Fork("one", 0, 5))


def test_what_a_fork_cannot_be() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", body=b"ab")
    machine.create("empty", content_type="text/plain")
    with pytest.raises(StreamNotFoundError):
        machine.create("f", fork=Fork("missing"))
    for fork in (Fork("s", 3), Fork("s", 0, 3), Fork("s", None, 1), Fork("empty", 0, 1), Fork("s", 10**17)):
        with pytest.raises(InvalidForkError):
            machine.create("f", fork=fork)
    with pytest.raises(ContentTypeMismatchError):
        machine.create("f", fork=Fork("s"), content_type="text/html")
    machine.delete("s")
    assert machine.state.by_id.keys() == {2}, "a refused fork leaves no reference behind"


def test_the_same_fork_again_confirms_with_or_without_its_content_type() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", body=b"abcdef", ttl_seconds=60)
    machine.create("f", fork=Fork("s", 0, 4))
    assert not machine.create("f", fork=Fork("s", 0, 4)).new
    assert not machine.create("f", fork=Fork("s", 4), content_type="text/plain").new
    for fork in (Fork("s", 0, 3), Fork("other", 0, 4), None):
        with pytest.raises(StreamExistsError):
            machine.create("f", fork=fork, content_type="text/plain")


def test_a_fork_at_the_tail_stays_the_same_when_the_source_goes_on() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", body=b"abc")
    machine.create("f", fork=Fork("s"))
    machine.append("s", b"def")
    assert not machine.create("f", fork=Fork("s")).new


def test_a_fork_inherits_type_and_expiry_but_not_producers_sequence_or_close() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", ttl_seconds=60)
    machine.append("s", b"a", producer=producer(0), seq="z", close=True)
    machine.create("f", fork=Fork("s"))
    fork = machine.find("f")
    assert (fork.content_type, fork.ttl_seconds, fork.closed) == ("text/plain", 60, False)
    assert not machine.append("f", b"b", producer=producer(0), seq="a").duplicate
    machine.create("g", fork=Fork("s"), expires_at_ms=10**13)
    assert (machine.find("g").ttl_seconds, machine.find("g").expires_at_ms) == (None, 10**13)


def test_depth_at_the_limit_and_one_past_it() -> None:
    machine = Machine(limits=replace(DEFAULT_LIMITS, fork_depth_max=2))
    machine.create("0")
    machine.create("1", fork=Fork("0"))
    machine.create("2", fork=Fork("1"))
    with pytest.raises(ForkTooDeepError):
        machine.create("3", fork=Fork("2"))


def test_a_soft_deleted_path_is_blocked() -> None:
    machine = Machine()
    machine.create("s")
    machine.create("f", fork=Fork("s"))
    machine.delete("s")
    with pytest.raises(PathBlockedError):
        machine.create("s")
    with pytest.raises(PathBlockedError):
        machine.create("g", fork=Fork("s"))
