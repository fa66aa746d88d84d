"""Notes of names that live elsewhere, and what a partition has given up."""

from dataclasses import replace

import pytest

from durable_sessions.errors import PartitionMovedError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams import placements
from durable_sessions.streams.effects import Effect, StreamCreated
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.placed_names import ENTRY_BYTES, NoteCache, PlacedNames
from durable_sessions.streams.placements import AT_HOME, NO_NOTE, Placement
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

HERE, THERE = PartitionId(0, of=2), PartitionId(1, of=2)
NAME = next(
    key for number in range(100) if home_partition(*(key := Key("w", f"name-{number}")), of=2) == HERE.number
)


def state_of(partition: PartitionId) -> State:
    state = State()
    state.next_stream = partition.streams.start
    return state


def apply(state: State, effects: list[Effect]) -> None:
    for effect in effects:
        state.apply(effect)


def create(state: State, name: Key = NAME, ttl: int | None = None) -> StreamCreated:
    created = StreamCreated(state.next_id, *name, "text/plain", 0, ttl)
    state.apply(created)
    return created


def place(state: State, partition: int, after: int = NO_NOTE, now_ms: int = 0) -> Placement | None:
    effects, placement = placements.place(state, NAME, partition, after, now_ms)
    apply(state, effects)
    return placement


def give_up(state: State, note: int, now_ms: int = 0) -> bool:
    effects, done = placements.give_up(state, NAME, note, now_ms)
    apply(state, effects)
    return done


def test_a_name_is_placed_once_until_its_note_is_given_up() -> None:
    home = state_of(HERE)
    assert placements.noted(home, NAME) is None
    assert place(home, 1) == Placement(1, 1)
    assert place(home, 1) == place(home, 2) == place(home, AT_HOME) == Placement(1, 1)
    assert placements.noted(home, NAME) == Placement(1, 1)
    assert place(home, 2, after=1) == Placement(2, 2)
    assert place(home, 1, after=1) == Placement(2, 2), "another request was faster"
    assert place(home, AT_HOME, after=2) == Placement(AT_HOME, 3)


def test_a_name_at_home_can_go_anywhere() -> None:
    home = state_of(HERE)
    assert place(home, AT_HOME) == Placement(AT_HOME, NO_NOTE)
    assert not home.streams, "nothing is noted of a name that never left"
    place(home, 1)
    place(home, AT_HOME, after=1)
    assert place(home, 1) == Placement(1, 3)


def test_a_stream_at_home_is_never_placed_elsewhere() -> None:
    home = state_of(HERE)
    create(home)
    assert place(home, 1) is None
    assert placements.noted(home, NAME) is None


def test_an_expired_stream_frees_its_name() -> None:
    home, other = state_of(HERE), state_of(THERE)
    for state in (home, other):
        create(state, ttl=1)
    assert place(home, 1, now_ms=999) is None
    assert not give_up(other, 1, now_ms=999)
    assert place(home, 1, now_ms=1_000) == Placement(1, 1)
    assert give_up(other, 1, now_ms=1_000)
    assert NAME not in home.streams
    assert NAME not in other.streams


def test_what_was_given_up_is_refused_for_ever() -> None:
    other = state_of(THERE)
    names = PlacedNames(THERE, DEFAULT_LIMITS)
    assert names.elsewhere(other, NAME, NO_NOTE) == Placement(HERE.number, NO_NOTE)
    assert names.elsewhere(other, NAME, 1) is None
    assert give_up(other, 1)
    assert give_up(other, 1), "again"
    assert names.elsewhere(other, NAME, 1) == Placement(HERE.number, NO_NOTE)
    assert names.elsewhere(other, NAME, 2) is None
    assert give_up(other, 1)
    assert placements.given_up(other, NAME) == 1


def test_a_stream_keeps_its_note() -> None:
    other = state_of(THERE)
    create(other)
    assert not give_up(other, 1)
    assert placements.given_up(other, NAME) == NO_NOTE


def test_a_name_is_created_only_where_it_lives() -> None:
    home, other = state_of(HERE), state_of(THERE)
    here, there = PlacedNames(HERE, DEFAULT_LIMITS), PlacedNames(THERE, DEFAULT_LIMITS)
    at_home = [StreamCreated(home.next_id, *NAME, "text/plain", 0)]
    elsewhere = [StreamCreated(other.next_id, *NAME, "text/plain", 0)]
    here.check(home, at_home)
    with pytest.raises(PartitionMovedError):
        there.check(other, elsewhere)
    place(home, THERE.number)
    with pytest.raises(PartitionMovedError):
        here.check(home, at_home)
    assert here.elsewhere(home, NAME, NO_NOTE) == Placement(THERE.number, 1)
    assert there.elsewhere(other, NAME, 1) is None
    there.check(other, elsewhere)
    give_up(other, 1)
    with pytest.raises(PartitionMovedError):
        there.check(other, elsewhere)
    place(home, AT_HOME, after=1)
    here.check(home, at_home)
    assert here.elsewhere(home, NAME, NO_NOTE) is None


def test_a_note_is_in_the_home_of_its_name() -> None:
    for number in range(50):
        name = Key("w", f"a/b-{number}")
        note = placements.note_key(name)
        assert placements.named_by(note) == name
        assert home_partition(*note, of=7) == home_partition(*name, of=7)
    assert placements.named_by(NAME) is None


def test_notes_are_remembered_up_to_the_bound() -> None:
    keys = [Key("w", f"{number:04d}") for number in range(3)]
    entry = ENTRY_BYTES + 4
    cache = NoteCache(replace(DEFAULT_LIMITS, placement_cache_bytes_max=2 * entry).placement_cache_bytes_max)
    for key in keys[:2]:
        cache.put(key, Placement(1, 1))
    assert (len(cache), cache.bytes_held) == (2, 2 * entry)
    assert cache.get(keys[0]) == Placement(1, 1)
    cache.put(keys[2], Placement(1, 1))
    assert [cache.get(key) is not None for key in keys] == [True, False, True], "the oldest is forgotten"
    cache.put(keys[0], Placement(1, 3))
    cache.put(keys[0], Placement(0, 2))
    assert cache.get(keys[0]) == Placement(1, 3), "an older note does not count"
    for key in keys:
        cache.drop(key)
    assert (len(cache), cache.bytes_held) == (0, 0)
