"""Deciding appends: pure, against a state."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import (
    IdempotencyMismatchError,
    InvalidEventError,
    PathBlockedError,
    PreconditionFailedError,
    ProducerGapError,
    SequenceConflictError,
    SessionArchivedError,
    SessionNotFoundError,
    StaleEpochError,
    StreamClosedError,
    StreamGoneError,
)
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.sessions import append, change, create, event_ids
from durable_sessions.sessions.append import Stored
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.streams.create import Fork
from durable_sessions.streams.effects import Appended, Effect, StreamCreated
from durable_sessions.streams.state import State
from tests.unit.sessions.world import batch, key

IDS = RandomIds()
Event = dict[str, Any]


class Driver:
    """A state, and the events that its effects hold."""

    def __init__(self) -> None:
        self.state = State()
        self.now_ms = 1_000
        self.log: dict[int, list[bytes]] = {}

    def send(self, session: str, *events: Event, **options: Any) -> Stored:
        effects, stored = append.decide(
            self.state, key(session), batch(LIMITS, *events, **options), self.now_ms, LIMITS, IDS
        )
        self.apply(effects)
        return stored

    def create(self, session: str, source: str | None = None, anchor: int | None = None, **more: Any) -> bool:
        fork = None if source is None else Fork(f"sessions/{source}", anchor)
        request = NewSession(Record(), "me", fork=fork, **more)
        effects, new = create.decide(self.state, key(session), request, self.now_ms, LIMITS, IDS)
        self.apply(effects)
        return new

    def delete(self, session: str) -> None:
        self.apply(change.delete(self.state, key(session), By("me"), self.now_ms)[0])

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.state.apply(effect)
            if isinstance(effect, Appended):
                assert sum(effect.lengths) == len(effect.data)
                begin = 0
                for length in effect.lengths:
                    piece = effect.data[begin : begin + length - 1]
                    self.log.setdefault(effect.stream, []).append(piece)
                    begin += length

    def events(self, session: str) -> list[Event]:
        """Return all events, inherited ones too."""
        stream = self.state.get(key(session))
        assert stream is not None
        found: list[bytes] = []
        end = stream.tail
        holder = stream
        while True:
            own = self.log.get(holder.id, [])[: max(0, end - holder.base)]
            found = own + found
            if holder.parent is None:
                return [json.loads(event) for event in found]
            end = min(end, holder.base)
            holder = self.state.by_id[holder.parent]

    def answered(self, session: str, stored: Stored) -> list[Event]:
        """Return the events of an answer."""
        events = self.events(session)
        return [events[one] if isinstance(one, int) else json.loads(one) for one in stored.events]


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_the_first_append_creates_the_session_if_it_may(driver: Driver) -> None:
    with pytest.raises(SessionNotFoundError):
        driver.send("s", {"type": "a"}, creates=False)
    assert driver.send("s", {"type": "a"}, {"type": "b"}).tail == 2
    assert driver.send("s", {"type": "c"}, creates=False).tail == 3


def test_every_event_gets_its_place(driver: Driver) -> None:
    driver.send("s", {"type": "a"})
    stored = driver.send("s", {"type": "b"}, {"type": "c"}, actor='o"dd')
    events = driver.answered("s", stored)
    assert [event["offset"][17:] for event in events] == [f"{1:016d}", f"{2:016d}"]
    assert [event_ids.position_of(event["id"]) for event in events] == [1, 2]
    assert {event["actor"] for event in events} == {'o"dd'}
    assert {event["created_at"] for event in events} == {"1970-01-01T00:00:01.000Z"}


# Ids -------------------------------------------------------------------------------------------


def test_an_id_is_appended_once(driver: Driver) -> None:
    first = driver.send("s", {"type": "a", "id": "x"}, {"type": "b", "id": "x"}, {"type": "c"})
    assert [event["type"] for event in driver.answered("s", first)] == ["a", "a", "c"]
    again = driver.send("s", {"type": "other", "id": "x"}, {"type": "d"})
    assert [event["type"] for event in driver.answered("s", again)] == ["a", "d"]
    assert [event["type"] for event in driver.events("s")] == ["a", "c", "d"]
    assert driver.send("t", {"type": "b", "id": "x"}).tail == 1, "ids are of a session"


def test_ids_of_the_server_are_known_too(driver: Driver) -> None:
    driver.send("s", {"type": "a"}, {"type": "b"})
    one, two = driver.events("s")
    assert driver.send("s", two, one).events == [1, 0]
    with pytest.raises(InvalidEventError) as caught:
        driver.send("s", {"type": "c"}, {"type": "d", "id": two["id"][:-1] + "5"})
    assert caught.value.fields["index"] == 1
    assert len(driver.events("s")) == 2


def test_ids_go_down_through_forks_of_forks(driver: Driver) -> None:
    driver.send("a", {"type": "0"}, {"type": "1", "id": "one"}, {"type": "2"}, {"type": "3", "id": "three"})
    driver.create("b", "a", 3)
    driver.send("b", {"type": "4"}, {"type": "5", "id": "five"})
    driver.create("c", "b", 4)
    events = driver.events("a") + driver.events("b")[3:]
    inherited = [events[0], events[1], events[2], events[4]]
    assert driver.send("c", *inherited).events == [0, 1, 2, 3]
    assert driver.send("c", events[3], events[5]).tail == 6, "what is not inherited is new"
    assert [event["type"] for event in driver.events("c")] == ["0", "1", "2", "4", "3", "5"]
    assert driver.send("c", events[3], events[5]).events == [4, 5]


@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=4), max_size=6))
def test_ids_are_unique_and_every_answer_names_the_first(batches: list[list[str]]) -> None:
    driver = Driver()
    expected: list[int] = []
    first: dict[str, int] = {}
    count = 0
    for names in batches:
        events: list[Event] = []
        wanted: list[int] = []
        for name in names:
            events.append({"type": "e", "n": count} | ({"id": name} if name else {}))
            if not name or name not in first:
                expected.append(count)
                first.setdefault(name, count) if name else None
                wanted.append(count)
            else:
                wanted.append(first[name])
            count += 1
        stored = driver.send("s", *events)
        assert stored.tail == len(expected)
        assert [event["n"] for event in driver.answered("s", stored)] == wanted
    if batches:
        assert [event["n"] for event in driver.events("s")] == expected


# Keys ------------------------------------------------------------------------------------------


def test_a_key_answers_as_the_first_time(driver: Driver) -> None:
    driver.send("s", {"type": "0", "id": "known"})
    request = [{"type": "1"}, {"type": "x", "id": "known"}, {"type": "2", "id": "new"}, {"type": "3"}]
    first = driver.send("s", *request, idempotency="k")
    driver.send("s", {"type": "between"})
    again = driver.send("s", *request, idempotency="k")
    assert driver.answered("s", again) == driver.answered("s", first)
    assert (again.tail, again.duplicate, first.duplicate) == (first.tail, True, False)
    assert len(driver.events("s")) == 5
    with pytest.raises(IdempotencyMismatchError):
        driver.send("s", {"type": "1"}, idempotency="k")
    assert driver.send("s", *request[:1], idempotency="other").tail == 6


def test_a_key_is_told_from_what_is_stored_whoever_gave_the_ids(driver: Driver) -> None:
    driver.send("s", {"type": "0", "id": "known"})
    driver.send(
        "s", {"type": "0", "id": "known"}, {"type": "1", "id": "x"}, {"type": "2", "id": "y"}, idempotency="k"
    )
    _, first, second = driver.events("s")
    assert (list(first)[:2], "request_key" in second) == (["id", "request_key"], False)
    driver.send("s", {"type": "3", "id": "z"}, {"type": "4"}, idempotency="l")
    assert not any("request_key" in event for event in driver.events("s")[3:])


def test_a_key_is_looked_at_before_all_conditions(driver: Driver) -> None:
    terms: dict[str, Any] = {"idempotency": "k", "if_tail": 0, "seq": "a", "close": True}
    first = driver.send("s", {"type": "a"}, **terms)
    again = driver.send("s", {"type": "a"}, **terms)
    assert (again.tail, again.closed, again.duplicate) == (first.tail, True, True)


# Conditions --------------------------------------------------------------------------------------


def test_producers_are_exactly_once_and_fenced(driver: Driver) -> None:
    with pytest.raises(ProducerGapError):
        driver.send("s", {"type": "a"}, producer=("p", 0, 1))
    assert driver.state.get(key("s")) is None, "a refusal creates nothing"
    driver.send("s", {"type": "a"}, producer=("p", 0, 0))
    assert driver.send("s", {"type": "a"}, producer=("p", 0, 0)).duplicate
    driver.send("s", {"type": "b"}, producer=("p", 1, 0))
    with pytest.raises(StaleEpochError):
        driver.send("s", {"type": "c"}, producer=("p", 0, 1))
    assert len(driver.events("s")) == 2


def test_the_end_must_be_the_expected_one(driver: Driver) -> None:
    assert driver.send("s", {"type": "a"}, if_tail=0).tail == 1
    with pytest.raises(PreconditionFailedError):
        driver.send("s", {"type": "b"}, if_tail=0)
    driver.send("s", {"type": "b"}, if_tail=1, seq="b")
    with pytest.raises(SequenceConflictError):
        driver.send("s", {"type": "c"}, seq="b")


def test_a_closed_session_takes_only_the_repeat_of_its_close(driver: Driver) -> None:
    driver.send("s", {"type": "a"}, close=True, producer=("p", 0, 0))
    with pytest.raises(StreamClosedError):
        driver.send("s", {"type": "b"})
    assert driver.send("s", {"type": "a"}, close=True, producer=("p", 0, 0)).duplicate
    assert driver.send("s", close=True).closed


def test_an_archived_session_takes_nothing(driver: Driver) -> None:
    driver.send("s", {"type": "a"}, idempotency="k")
    driver.apply(change.archive(driver.state, key("s"), By("me"), driver.now_ms, LIMITS, IDS)[0])
    for options in ({}, {"idempotency": "k"}, {"close": True}):
        with pytest.raises(SessionArchivedError):
            driver.send("s", {"type": "a"}, **options)


def test_an_expired_session_makes_room(driver: Driver) -> None:
    driver.create("s", ttl_seconds=10)
    driver.send("s", {"type": "old", "id": "x"}, idempotency="k")
    driver.now_ms += 11_000
    effects, stored = append.decide(
        driver.state, key("s"), batch(LIMITS, {"type": "new", "id": "x"}), driver.now_ms, LIMITS, IDS
    )
    assert stored.tail == 1
    assert any(isinstance(effect, StreamCreated) for effect in effects)
    driver.apply(effects)
    assert [event["type"] for event in driver.events("s")] == ["new"]


def test_a_deleted_session_that_forks_need_is_in_the_way(driver: Driver) -> None:
    driver.send("s", {"type": "a"})
    driver.create("f", "s")
    driver.delete("s")
    with pytest.raises(PathBlockedError):
        driver.send("s", {"type": "b"})
    with pytest.raises(StreamGoneError):
        driver.send("s", {"type": "b"}, creates=False)
    with pytest.raises(PathBlockedError):
        driver.create("s")
    driver.delete("f")
    assert driver.send("s", {"type": "b"}).tail == 1


def test_an_outcome_gets_an_id_or_keeps_its_own(driver: Driver) -> None:
    kind = "user.define_outcome"
    stored = driver.send("s", {"type": kind}, {"type": kind, "outcome_id": "o", "max_iterations": 2})
    made, kept = driver.answered("s", stored)
    assert made["outcome_id"].startswith("outc_")
    assert (made["max_iterations"], kept["outcome_id"], kept["max_iterations"]) == (None, "o", 2)
