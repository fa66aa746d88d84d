"""Ids of events say where the event is; names of records are told from them again."""

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.records import AppendRun
from durable_sessions.sessions import digests, event_ids
from durable_sessions.sessions.json_members import members
from durable_sessions.streams.effects import Name, StreamCreated
from durable_sessions.streams.stream import Stream

DIGEST = digests.of_sent(members(b'{"type":"a"}'))


def stream(number: int = 1, created_at_ms: int = 5) -> Stream:
    return Stream.of(StreamCreated(number, "w", "sessions/s", "application/json", created_at_ms))


def run(first: int, *ids: str) -> AppendRun:
    events = [b'{"id":"%b","type":"a"},' % name.encode() for name in ids]
    return AppendRun(first, 7, tuple(map(len, events)), b"".join(events))


@given(st.integers(0, 16**10 - 1), st.none() | st.text(min_size=1, max_size=20), st.binary())
def test_the_position_follows_from_the_id(position: int, key: str | None, body: bytes) -> None:
    own = stream()
    suffix = "" if key is None else event_ids.key_suffix(key, event_ids.body_check(body))
    name = event_ids.event_id(event_ids.tag(own), position, suffix)
    assert event_ids.position_of(name) == position
    assert event_ids.is_own(name, own)
    assert not event_ids.is_own(name, stream(2))
    assert not event_ids.is_own(name, stream(1, 6)), "a session that takes the place of another is another"


@given(st.text(max_size=40))
def test_other_ids_say_nothing(name: str) -> None:
    assert event_ids.position_of(name) is None
    assert event_ids.position_of("sevt_" + name) is None


def test_names_are_told_from_stored_events() -> None:
    own = stream()
    tag = event_ids.tag(own)
    plain = [event_ids.event_id(tag, position) for position in (3, 4)]
    assert list(event_ids.names_of(own, run(3, *plain))) == []
    foreign = event_ids.event_id(event_ids.tag(stream(2)), 9)
    expected = [Name("id:mine", 3, 1, DIGEST), Name(f"id:{foreign}", 4, 1, DIGEST)]
    assert list(event_ids.names_of(own, run(3, "mine", foreign))) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.text(max_size=10), st.integers(0, 2**32 - 1))
def test_the_key_of_a_request_is_told_from_any_event_that_the_server_named(
    given_ids: list[bool], key: str, check: int
) -> None:
    own = stream()
    suffix = event_ids.key_suffix(key, check)
    ids = [
        f"mine-{number}" if is_given else event_ids.event_id(event_ids.tag(own), 7 + number, suffix)
        for number, is_given in enumerate(given_ids)
    ]
    found = set(event_ids.names_of(own, run(7, *ids)))
    expected = {Name(f"id:mine-{n}", 7 + n, 1, DIGEST) for n, is_given in enumerate(given_ids) if is_given}
    if not all(given_ids):
        expected.add(Name(event_ids.key_name(key), 7, len(ids), check))
    assert found == expected


def test_the_key_of_a_request_in_which_all_events_had_ids_is_told_too() -> None:
    mark = b'"request_key":"%b",' % event_ids.key_suffix("k", 9).encode()
    events = [b'{"id":"a",' + mark + b'"type":"x"},', b'{"id":"b","type":"x","y":{' + mark[:-1] + b"}},"]
    found = event_ids.names_of(stream(), AppendRun(3, 7, tuple(map(len, events)), b"".join(events)))
    key = Name(event_ids.key_name("k"), 3, 2, 9)
    digested = [digests.of_stored(event[:-1]) for event in events]
    assert set(found) == {Name("id:a", 3, 1, digested[0]), Name("id:b", 4, 1, digested[1]), key}


def test_ids_with_odd_characters_are_names_too() -> None:
    assert list(event_ids.names_of(stream(), run(0, "é 😀/,{}"))) == [Name("id:é 😀/,{}", 0, 1, DIGEST)]
