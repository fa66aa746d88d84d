import pytest

from durable_sessions.errors import PathBlockedError, StreamGoneError, StreamNotFoundError
from durable_sessions.streams import lifetime
from durable_sessions.streams.create import Fork
from tests.unit.streams.driver import Machine, producer


def test_delete_frees_the_path_and_forgets_producers() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain")
    machine.append("s", producer=producer(0))
    machine.delete("s")
    with pytest.raises(StreamNotFoundError):
        machine.find("s")
    machine.create("s", content_type="text/plain")
    assert machine.find("s").tail == 0
    assert not machine.append("s", producer=producer(0)).duplicate


def test_a_source_is_kept_until_its_last_fork_goes_and_the_chain_with_it() -> None:
    machine = Machine()
    machine.create("a")
    machine.create("b", fork=Fork("a"))
    machine.create("c", fork=Fork("b"))
    machine.delete("a")
    machine.delete("b")
    for path in ("a", "b"):
        with pytest.raises(StreamGoneError):
            machine.find(path)
    machine.delete("c")
    assert not machine.state.by_id
    assert not machine.state.streams


def test_the_cascade_stops_at_a_living_ancestor() -> None:
    machine = Machine()
    machine.create("a")
    machine.create("b", fork=Fork("a"))
    machine.create("c", fork=Fork("b"))
    machine.delete("b")
    machine.delete("c")
    assert [stream.key.path for stream in machine.state.by_id.values()] == ["a"]
    assert machine.find("a").forks == 0


def test_a_ttl_slides_with_use_and_ends_without() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", ttl_seconds=10)
    machine.advance(9)
    machine.append("s")
    machine.advance(9)
    machine.touch("s")
    machine.advance(9.999)
    machine.find("s")
    machine.advance(0.001)
    with pytest.raises(StreamNotFoundError):
        machine.find("s")
    assert machine.create("s", content_type="text/html").new


def test_an_absolute_expiry_does_not_slide() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", expires_at_ms=machine.now_ms + 10_000)
    machine.advance(9)
    machine.append("s")
    assert machine.touch("s") == 0
    machine.advance(1)
    with pytest.raises(StreamNotFoundError):
        machine.find("s")


def test_a_ttl_of_zero_is_over_at_once() -> None:
    machine = Machine()
    assert machine.create("s", ttl_seconds=0).new
    with pytest.raises(StreamNotFoundError):
        machine.find("s")


def test_an_expired_source_with_forks_is_gone_and_blocks_its_path() -> None:
    machine = Machine()
    machine.create("s", ttl_seconds=10)
    machine.create("f", fork=Fork("s"), ttl_seconds=1000)
    machine.advance(10)
    with pytest.raises(StreamGoneError):
        machine.find("s")
    with pytest.raises(PathBlockedError):
        machine.create("s")
    machine.expire("s")
    assert machine.state.by_id[1].soft_deleted
    assert machine.find("f").parent == 1


def test_touches_are_recorded_within_the_lag_and_a_replay_grants_it() -> None:
    machine = Machine()
    machine.create("s", ttl_seconds=50)
    recorded = 0
    for _ in range(100):
        machine.advance(0.5)
        recorded += machine.touch("s")
        stream = machine.find("s")
        assert stream.accessed_at_ms - stream.recorded_at_ms < lifetime.touch_lag_ms(stream, machine.limits)
    assert recorded == 10, "one record per 5 seconds, a tenth of the TTL"
    lost = machine.find("s")
    accessed = lost.accessed_at_ms
    lost.accessed_at_ms = lost.recorded_at_ms
    lifetime.grant_lag(lost, machine.limits)
    assert lost.accessed_at_ms >= accessed, "a crash never makes a stream expire early"


def test_an_append_under_a_clock_that_was_set_back_does_not_shorten_a_ttl() -> None:
    machine = Machine()
    machine.create("s", content_type="text/plain", ttl_seconds=50)
    machine.advance(-3600)
    machine.append("s")
    machine.advance(3600)
    stream = machine.find("s")
    lifetime.grant_lag(stream, machine.limits)
    machine.advance(49)
    assert machine.find("s") is stream, "a replay knows of the access before the clock was set back"
