"""Deciding appends: pure, against a state."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from durable_sessions.errors import (
    EventIdConflictError,
    IdempotencyMismatchError,
    InvalidEventError,
    InvalidHeaderError,
    PreconditionNotMetError,
    ProducerGapError,
    SequenceConflictError,
    SessionArchivedError,
    SessionExistsError,
    SessionNotFoundError,
    StaleEpochError,
    StreamClosedError,
)
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.sessions import append, change, create, digests, drafts, event_ids, summary, threads
from durable_sessions.sessions.batch import Stored
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import Made, NewSession
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.record import Record
from durable_sessions.streams.create import Fork
from durable_sessions.streams.effects import Effect, Name, RecordsAppended, StreamCreated
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
        request = batch(LIMITS, *events, **options)
        while True:
            effects, stored = append.decide(self.state, key(session), request, self.now_ms, LIMITS, IDS)
            if not stored.repeats.unread:
                self.apply(effects)
                return stored
            assert not effects, "nothing is done before it is known what is meant"
            for position in stored.repeats.unread:
                request.digests[stored.life, position] = digests.of_stored(self.stored(session)[position])

    def create(self, session: str, source: str | None = None, anchor: int | None = None, **more: Any) -> Made:
        fork = None if source is None else Fork(f"sessions/{source}", anchor)
        request = NewSession(more.pop("record", Record()), "me", fork=fork, **more)
        effects, made = create.decide(self.state, key(session), request, self.now_ms, LIMITS, IDS)
        if made.unfolded is not None:
            assert source is not None
            fold = Fold(LIMITS)
            for position, event in enumerate(self.stored(source)[: made.unfolded[1]]):
                fold.step(happened(event, position, None))
            request.folded[made.unfolded] = fold.control.cross_fork().attributes()
            effects, made = create.decide(self.state, key(session), request, self.now_ms, LIMITS, IDS)
        self.apply(effects)
        return made

    def archive(self, session: str) -> None:
        self.apply(change.archive(self.state, key(session), By("me"), self.now_ms, LIMITS, IDS)[0])

    def delete(self, session: str) -> None:
        self.apply(change.delete(self.state, key(session), By("me"), self.now_ms)[0])

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.state.apply(effect)
            if isinstance(effect, RecordsAppended):
                assert sum(effect.lengths) == len(effect.data)
                begin = 0
                for length in effect.lengths:
                    piece = effect.data[begin : begin + length - 1]
                    self.log.setdefault(effect.stream, []).append(piece)
                    begin += length

    def events(self, session: str) -> list[Event]:
        """Return all events, inherited ones too."""
        return [json.loads(event) for event in self.stored(session)]

    def stored(self, session: str) -> list[bytes]:
        """Return all events as they are stored."""
        stream = self.state.get(key(session))
        assert stream is not None
        found: list[bytes] = []
        end = stream.tail
        holder = stream
        while True:
            own = self.log.get(holder.id, [])[: max(0, end - holder.base)]
            found = own + found
            if holder.parent is None:
                return found
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
    with pytest.raises(PreconditionNotMetError):
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
    driver.archive("s")
    for options in ({}, {"idempotency": "l"}, {"close": True}):
        with pytest.raises(SessionArchivedError):
            driver.send("s", {"type": "a"}, **options)
    assert driver.send("s", {"type": "a"}, idempotency="k").duplicate, "a repeat changes nothing"
    stream = driver.state.get(key("s"))
    assert stream is not None
    assert stream.closed, "followers end"


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


def test_a_deleted_session_that_forks_need_gives_up_its_id(driver: Driver) -> None:
    driver.send("s", {"type": "a"})
    driver.create("f", "s")
    driver.delete("s")
    for call in (
        lambda: driver.send("s", {"type": "b"}, creates=False),
        lambda: driver.delete("s"),
        lambda: driver.archive("s"),
    ):
        with pytest.raises(SessionNotFoundError):
            call()
    assert driver.send("s", {"type": "b"}).tail == 1
    assert [event["type"] for event in driver.events("f")] == ["a"]
    driver.create("g", "s")
    driver.delete("s")
    driver.create("s")
    assert [event["type"] for event in driver.events("g")] == ["b"]
    for name in ("f", "g"):
        driver.delete(name)
    assert [stream.key for stream in driver.state.by_id.values()] == [key("s")], "nothing is left behind"


def test_an_outcome_gets_an_id_or_keeps_its_own(driver: Driver) -> None:
    kind = "user.define_outcome"
    stored = driver.send("s", {"type": kind}, {"type": kind, "outcome_id": "o", "max_iterations": 2})
    made, kept = driver.answered("s", stored)
    assert made["outcome_id"].startswith("outc_")
    assert (made["max_iterations"], kept["outcome_id"], kept["max_iterations"]) == (None, "o", 2)


# The same id again ----------------------------------------------------------------------------------------


def told(stored: Stored | Made) -> tuple[list[int], list[int]]:
    return stored.repeats.repeated, stored.repeats.differ


def test_it_is_told_which_events_were_there_and_which_of_these_are_others(driver: Driver) -> None:
    assert told(driver.send("s", {"type": "a", "id": "x", "n": 1}, {"type": "b", "id": "y"})) == ([], [])
    again = driver.send(
        "s",
        {"type": "a", "id": "x", "n": 1},
        {"type": "new", "id": "z"},
        {"type": "b", "id": "y", "more": True},
        {"type": "other", "id": "z"},
        {"type": "new", "id": "z"},
    )
    assert told(again) == ([0, 2, 3, 4], [2, 3])
    assert again.events[0] == 0
    assert [event["type"] for event in driver.events("s")] == ["a", "b", "new"], "the first one stays"


def test_where_ids_are_unique_another_event_under_one_is_refused_and_nothing_is_stored(
    driver: Driver,
) -> None:
    driver.send("s", {"type": "a", "id": "x"}, unique=True)
    assert told(driver.send("s", {"type": "a", "id": "x"}, {"type": "b"}, unique=True)) == ([0], [])
    for events in (
        [{"type": "new"}, {"type": "b", "id": "x"}],
        [{"type": "c", "id": "y"}, {"type": "d", "id": "y"}],
    ):
        with pytest.raises(EventIdConflictError) as caught:
            driver.send("s", *events, unique=True, producer=("p", 0, 0))
        assert caught.value.fields["index"] == 1
    assert len(driver.events("s")) == 2
    stream = driver.state.get(key("s"))
    assert stream is not None
    assert not stream.producers, "what is refused uses no number up"


def test_events_of_the_server_that_come_back_are_compared_too(driver: Driver) -> None:
    driver.send("s", {"type": "a", "n": 1}, {"type": "user.define_outcome", "description": "d"})
    one, two = driver.events("s")
    assert told(driver.send("s", one, two)) == ([0, 1], [])
    assert told(driver.send("s", {**one, "n": 2}, two)) == ([0, 1], [0])
    with pytest.raises(EventIdConflictError):
        driver.send("s", {**two, "description": "e"}, unique=True)
    driver.create("f", "s")
    assert told(driver.send("f", {**one, "n": 2}, two)) == ([0, 1], [0])
    events = drafts.parse(json.dumps([one, {"type": "x"}]).encode(), LIMITS)
    assert told(driver.create("g", "s", drafts=events)) == ([0], [0]), (
        "it was not read, so it counts as another"
    )


def test_events_from_before_digests_were_kept_are_read_and_compared(driver: Driver) -> None:
    driver.send("s", {"type": "a", "id": "x"})
    stream = driver.state.get(key("s"))
    assert stream is not None
    assert stream.names is not None
    stream.names = {name: Name(one.name, one.first, one.count) for name, one in stream.names.items()}
    assert told(driver.send("s", {"type": "a", "id": "x"})) == ([0], [])
    assert told(driver.send("s", {"type": "b", "id": "x"})) == ([0], [0])
    with pytest.raises(EventIdConflictError):
        driver.send("s", {"type": "b", "id": "x"}, unique=True)


def test_a_key_and_a_producer_that_come_again_are_told_the_same(driver: Driver) -> None:
    driver.send("s", {"type": "a", "id": "x"})
    events = [{"type": "b", "id": "x"}, {"type": "c", "id": "y"}]
    assert told(driver.send("s", *events, idempotency="k")) == ([0], [0])
    assert told(driver.send("s", *events, idempotency="k")) == ([0, 1], [0])
    assert told(driver.send("s", *events, producer=("p", 0, 0))) == ([0, 1], [0])
    again = driver.send("s", *events, producer=("p", 0, 0))
    assert again.duplicate
    assert told(again) == ([0, 1], [0])


@pytest.mark.parametrize("end", ["close", "archive"])
def test_repeats_are_harmless_when_a_session_takes_nothing_more(driver: Driver, end: str) -> None:
    driver.send("s", {"type": "a", "id": "x"}, {"type": "b", "id": "y"})
    if end == "close":
        driver.send("s", close=True)
    else:
        driver.archive("s")
    count = len(driver.events("s"))
    again = driver.send(
        "s", {"type": "b", "id": "y"}, {"type": "c", "id": "x"}, producer=("p", 0, 0), close=True
    )
    assert (again.tail, again.closed, again.duplicate, again.events) == (count, True, True, [1, 0])
    assert told(again) == ([0, 1], [1])
    for events in ([{"type": "b", "id": "y"}, {"type": "new"}], [{"type": "new", "id": "z"}]):
        with pytest.raises(StreamClosedError if end == "close" else SessionArchivedError):
            driver.send("s", *events)
    with pytest.raises(StreamClosedError if end == "close" else SessionArchivedError):
        driver.send("s", {"type": "c", "id": "x"}, unique=True)
    assert len(driver.events("s")) == count


# Lives ----------------------------------------------------------------------------------------------------


def test_an_append_can_be_meant_for_one_life_only(driver: Driver) -> None:
    life = driver.send("s", {"type": "a", "id": "x"}).life
    assert driver.send("s", {"type": "b"}, incarnation=life).life == life
    driver.delete("s")
    for options in ({"incarnation": life}, {"if_exists": True}):
        with pytest.raises(PreconditionNotMetError) as caught:
            driver.send("s", {"type": "c"}, **options)
        assert caught.value.fields["exists"] is False
    assert driver.state.get(key("s")) is None, "the dead stay dead"
    driver.now_ms += 1
    other = driver.send("s", {"type": "a", "id": "x"}).life
    assert other != life
    for more in ({}, {"close": True}, {"producer": ("p", 0, 1)}):
        with pytest.raises(PreconditionNotMetError) as caught:
            driver.send("s", {"type": "a", "id": "x"}, incarnation=life, **more)
        assert caught.value.fields["incarnation"] == other
    assert driver.send("s", {"type": "d"}, if_exists=True).tail == 2


def test_changes_can_be_meant_for_one_life_only(driver: Driver) -> None:
    life = driver.send("s", {"type": "a"}).life
    for by in (By("me", incarnation="0" * 12), By("me", if_tail=frozenset({7}))):
        with pytest.raises(PreconditionNotMetError):
            change.delete(driver.state, key("s"), by, driver.now_ms)
    assert change.delete(driver.state, key("s"), By("me", incarnation=life), driver.now_ms)[1] == life


# Creating again -------------------------------------------------------------------------------------------


def begins(*events: Event) -> list[drafts.Draft]:
    return drafts.parse(json.dumps(events).encode(), LIMITS)


def test_a_session_is_confirmed_only_with_the_events_it_began_with(driver: Driver) -> None:
    assert driver.create("s", drafts=begins({"type": "a", "n": 1}), confirms=True).new
    driver.send("s", {"type": "b"})
    spaced = drafts.parse(b'[ { "type" : "a", "n" : 1 } ]', LIMITS)
    for same in (begins({"type": "a", "n": 1}), spaced, []):
        made = driver.create("s", drafts=same, confirms=True)
        assert (made.new, made.ignored) == (False, False)
    for other in (begins({"type": "a", "n": 2}), begins({"type": "a", "n": 1}, {"type": "b"})):
        with pytest.raises(SessionExistsError, match="began with other events"):
            driver.create("s", drafts=other, confirms=True)
    driver.send("t", {"type": "a", "n": 1})
    with pytest.raises(SessionExistsError, match="began with other events"):
        driver.create("t", drafts=begins({"type": "a", "n": 1}), confirms=True)


def test_of_an_old_session_it_is_not_known_what_it_began_with(driver: Driver) -> None:
    driver.create("s", drafts=begins({"type": "a"}))
    stream = driver.state.get(key("s"))
    assert stream is not None
    stream.attributes = {"session": Record(created_by="me").encode()}
    assert driver.create("s", drafts=begins({"type": "b"}), confirms=True).ignored
    assert not driver.create("s", confirms=True).ignored


def test_only_the_metadata_that_are_sent_are_compared(driver: Driver) -> None:
    def said(**metadata: Any) -> Record:
        return Record(metadata={name: Raw(json.dumps(value).encode()) for name, value in metadata.items()})

    driver.create("s", record=said(a=1, b=[2]))
    assert not driver.create("s", record=said(a=1), confirms=True).new
    for other in (said(a=2), said(c=1), said(a=1, c=1)):
        with pytest.raises(SessionExistsError, match="metadata"):
            driver.create("s", record=other, confirms=True)


def test_a_session_that_would_be_gone_at_once_is_refused(driver: Driver) -> None:
    with pytest.raises(InvalidHeaderError, match="at least 1"):
        driver.create("s", ttl_seconds=0)
    for expires_at_ms in (driver.now_ms, 0):
        with pytest.raises(InvalidHeaderError, match="is past"):
            driver.create("s", expires_at_ms=expires_at_ms)
    assert driver.create("s", expires_at_ms=driver.now_ms + 1).new


# The end of a session, and forks --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["running", "rescheduled"])
@pytest.mark.parametrize("together", [True, False])
def test_what_is_closed_does_not_go_on_running(driver: Driver, kind: str, together: bool) -> None:
    thread = {"type": f"session.thread_status_{kind}", "session_thread_id": "t"}
    driver.send("s", {"type": f"session.status_{kind}"}, thread, close=together)
    driver.now_ms += 5_000
    driver.send("s", close=True)
    stream = driver.state.get(key("s"))
    assert stream is not None
    folded = summary.of(stream.attributes)
    assert (folded.status, folded.running_since_ms) == ("terminated", None)
    assert threads.of(stream.attributes)["t"].status == "terminated"


def test_what_is_closed_while_idle_stays_idle(driver: Driver) -> None:
    driver.send("s", {"type": "session.status_idle"}, close=True)
    stream = driver.state.get(key("s"))
    assert stream is not None
    assert summary.of(stream.attributes).status == "idle"


def test_a_fork_has_the_outcomes_that_were_asked_for_before_it(driver: Driver) -> None:
    define = {"type": "user.define_outcome", "description": "d"}
    done = {"type": "span.outcome_evaluation_end", "result": "satisfied", "iteration": 1}
    driver.send("s", {**define, "outcome_id": "o1"}, {**define, "outcome_id": "o2"})
    driver.send("s", {**done, "outcome_id": "o1"}, {"type": "note"}, {**done, "outcome_id": "o2"})

    def outcomes(session: str) -> list[tuple[str, str]]:
        stream = driver.state.get(key(session))
        assert stream is not None
        return [(one.id, one.result) for one in summary.of(stream.attributes).outcomes]

    for anchor, expected in [
        (0, []),
        (1, [("o1", "pending")]),
        (2, [("o1", "pending"), ("o2", "pending")]),
        (3, [("o1", "satisfied"), ("o2", "pending")]),
        (None, [("o1", "satisfied"), ("o2", "satisfied")]),
    ]:
        driver.create(f"f{anchor}", "s", anchor)
        assert outcomes(f"f{anchor}") == expected
    driver.send("f2", {**done, "outcome_id": "o2"})
    assert outcomes("f2") == [("o1", "pending"), ("o2", "satisfied")]
    driver.create("g", "f2")
    assert outcomes("g") == outcomes("f2")
