"""What a request may hold, and what of it is stored."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import (
    DurableSessionsError,
    EventTooLargeError,
    InvalidEventError,
    InvalidJsonError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.server_members import RESERVED
from durable_sessions.sessions.drafts import Draft, parse
from tests.unit.sessions.json_texts import Text, objects, strings, values

LIMITS = replace(DEFAULT_LIMITS, event_bytes_max=200, events_per_request_max=3, json_depth_max=5)
FRONT = '"id":"i",'


def one(body: str) -> Draft:
    (draft,) = parse(body.encode(), DEFAULT_LIMITS)
    return draft


def test_the_three_shapes_give_the_same_events() -> None:
    event = '{"type":"a", "x": [1]}'
    for body in (event, f" [ {event} ] ", f'{{"events" : [{event}]}}'):
        draft = one(body)
        assert (draft.type, draft.body, draft.stored(FRONT)) == (
            "a",
            event.encode(),
            b'{"id":"i","type":"a", "x": [1]}',
        )


def test_an_object_with_a_type_is_an_event_even_if_it_has_events() -> None:
    assert one('{"type":"a","events":[1]}').type == "a"
    assert one('{"events":[1],"type":"a"}').type == "a"


def test_what_must_be_wrapped_is_refused_otherwise() -> None:
    assert parse(b'{"events":[{"type":"a"}]}', LIMITS, wrapped_only=True)
    for body in (b'{"type":"a"}', b'[{"type":"a"}]'):
        with pytest.raises(InvalidEventError, match="events"):
            parse(body, LIMITS, wrapped_only=True)


@given(objects(values, strings.filter(lambda key: json.loads(key) not in (*RESERVED, "id", "type"))))
def test_what_is_not_the_servers_is_stored_as_it_came(made: Text) -> None:
    body = '{"type":"a",' + made.text[1:] if made.members else '{"type":"a"}'
    assert one(body).stored(FRONT) == b"{" + FRONT.encode() + body.encode()[1:]


reserved = st.sampled_from(["id", *RESERVED, "i\\u0064", "\\u0061ctor", "created\\u005fat"])


@given(
    st.lists(st.tuples(reserved | st.sampled_from(["x", "y", "x"]), values), max_size=6),
    st.sampled_from(["", ',"odd":"\\ud800"', ',"\\udc00":1']),
)
def test_nobody_can_say_what_the_server_says(pairs: list[tuple[str, str]], odd: str) -> None:
    """However a member is spelt and whatever stands beside it, the stored event has the server's."""
    body = '{"type":"a"' + odd + "".join(f',"{key}": {value}' for key, value in pairs) + "}"
    front = '"id":"server","offset":"server","created_at":"server","processed_at":"server","actor":"server",'
    try:
        draft = one(body)
    except (InvalidEventError, InvalidJsonError):
        return  # an id that is no id, or something that is there twice
    stored = json.loads(draft.stored(front), object_pairs_hook=list)
    names = [name for name, _ in stored]
    for name in ("id", *RESERVED):
        assert names.count(name) == 1
        assert dict(stored)[name] == "server"
    given_pairs = json.loads(body, object_pairs_hook=list)
    kept = [(f"original_{name}" if name in RESERVED else name, value) for name, value in given_pairs]
    assert stored[5:] == [pair for pair in kept if pair[0] != "id"]
    told = [value for name, value in given_pairs if name == "id"]
    if told and isinstance(told[0], float):
        told = []  # beyond all numbers, which counts as null
    assert draft.id == (told[0] if told else None)


@pytest.mark.parametrize(
    "member",
    [
        '"imported":"trusted"',
        '"imported" : "untrusted"',
        '"\\u0069mported":"trusted"',
        '"imported":"\\u0074rusted"',
        '"imported":"trusted","imported":"untrusted"',
    ],
)
def test_only_the_server_marks_an_event_as_imported(member: str) -> None:
    for body in (f'{{"type":"agent.message",{member},"n":1}}', f'{{{member},"type":"agent.message","n":1}}'):
        draft = one(body)
        assert (draft.rest, draft.imported) == (b'"type":"agent.message","n":1}', None)
        (draft,) = parse(body.encode(), DEFAULT_LIMITS, imported="untrusted")
        assert draft.rest == b'"imported":"untrusted","type":"agent.message","n":1}'


@pytest.mark.parametrize("value", ["true", "12", '"apples"', "null", '["trusted"]'])
def test_what_is_no_mark_of_an_import_is_stored(value: str) -> None:
    assert one(f'{{"type":"app.note","imported":{value}}}').rest == b'"type":"app.note","imported":%b}' % (
        value.encode()
    )


def test_spelling_is_kept_where_members_are_renamed() -> None:
    draft = one('{ "actor" : 1.50 , "type":"a","id":"x", "n":1E+2,"n" : [ 1 ] }')
    assert draft.id == "x"
    assert draft.rest == b'"original_actor":1.50,"type":"a","n":1E+2,"n":[ 1 ]}'


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (
            '"created_at":"2026-11-16T00:00:00Z","original_created_at":"2025-01-01T00:00:00Z"',
            '"original_created_at":"2025-01-01T00:00:00Z"',
        ),
        (
            '"original_actor":"ann","actor":"ds","original_offset":"5","offset":"7","x":1',
            '"original_actor":"ann","original_offset":"5","x":1',
        ),
        (  # as servers wrote it before: the copy's time in front, the original behind
            '"created_at":"2026-11-17T00:00:00Z","original_created_at":"2026-11-16T00:00:00Z",'
            '"original_actor":"ds","original_actor":"ann","original_created_at":"2025-01-01T00:00:00Z"',
            '"original_actor":"ann","original_created_at":"2025-01-01T00:00:00Z"',
        ),
        (
            '"original_created_at":"2025-01-01T00:00:00Z","created\\u005fat":null,"original_created_at":"?"',
            '"original_created_at":"2025-01-01T00:00:00Z"',
        ),
        ('"id":"e","request_key":"_' + "k" * 22 + "0" * 8 + '","x":1', '"x":1'),
        ('"id":"e","request_key":"mine"', '"request_key":"mine"'),
    ],
)
def test_a_copy_of_a_copy_keeps_each_original_once(sent: str, stored: str) -> None:
    assert one('{"type":"a",' + sent + "}").rest == b'"type":"a",' + stored.encode() + b"}"


@pytest.mark.parametrize(
    ("sent", "happened"),
    [
        ("", None),
        (',"created_at":"1970-01-01T00:00:01Z"', 1_000),
        (',"created_at":"1970-01-01T00:00:09Z","original_created_at":"1970-01-01T00:00:01Z"', 1_000),
        (',"original_created_at":"1970-01-01T00:00:01.5Z"', 1_500),
        (',"processed_at":"1970-01-01T00:00:02Z"', 2_000),
        (',"processed_at":"1970-01-01T00:00:02Z","created_at":"1970-01-01T00:00:01Z"', 1_000),
        (',"original_created_at":7', None),
        (',"id":"x","x":{"original_created_at":"1970-01-01T00:00:01Z"}', None),
    ],
)
def test_an_event_says_when_it_happened(sent: str, happened: int | None) -> None:
    assert one('{"type":"a"' + sent + "}").happened_ms == happened


@pytest.mark.parametrize("unusable", ["null", '""', "5", '{"a":1}'])
def test_an_outcome_has_one_id(unusable: str) -> None:
    draft = one('{"type":"user.define_outcome","outcome_id":' + unusable + ',"description":"done"}')
    assert draft.rest == b'"type":"user.define_outcome","description":"done"}'
    kept = '{"type":"user.define_outcome","outcome_id":"o"}'
    assert one(kept).rest == kept[1:].encode()


def test_lone_surrogates_are_kept_and_do_not_hide_the_rest() -> None:
    draft = one('{"type":"\\u0061","id":"\\u0062","session_thread_id":"t","x":"\\ud800"}')
    assert (draft.type, draft.id, draft.thread) == ("a", "b", "t")
    assert b'"x":"\\ud800"' in draft.rest
    assert one('{"type":"\\ud83d\\ude00","x":"\\udfff"}').type == "😀"
    assert one('{"type":"a","session_thread_id":"\\ud800"}').thread is None
    for odd in ('{"type":"\\ud800"}', '{"type":"a","id":"\\ud800"}'):
        with pytest.raises(InvalidEventError):
            one(odd)


@pytest.mark.parametrize(
    ("body", "index"),
    [
        ('[{"type":"a"},{"type":5}]', 1),
        ('{"events":[{"type":"a"},{"type":"a"},[]]}', 2),
        ('[{"type":""}]', 0),
        ('[{"type":"a\\u0000"}]', 0),
        ('[{"type":"a","id":"a\\"b"}]', 0),
        ('[{"type":"a","actor":1,"actor":2}]', 0),
        ('{"type":""}', 0),
        ('{"type":"ds.nope"}', 0),
        ('[{"type":"a"},{"type":"ds.nope"}]', 1),
        ('[{"type":"a"},{"type":"' + "x" * 200 + '"}]', 1),
    ],
)
def test_the_bad_event_is_named_unless_it_is_the_only_one(body: str, index: int) -> None:
    with pytest.raises(DurableSessionsError) as caught:
        parse(body.encode(), LIMITS)
    assert caught.value.fields.get("index") == index
    assert str(caught.value).startswith(f"Event {index}, counted from 0: ") == (index > 0)


def test_limits_hold_exactly() -> None:
    def sized(size: int) -> bytes:
        return b'{"type":"' + b"x" * 20 + b'","t":"' + b"y" * (size - 38) + b'"}'

    assert len(parse(sized(200), LIMITS)[0].body) == 200
    with pytest.raises(EventTooLargeError):
        parse(sized(201), LIMITS)
    event = b'{"type":"a"}'
    assert len(parse(b"[" + b",".join([event] * 3) + b"]", LIMITS)) == 3
    with pytest.raises(InvalidEventError, match="at most 3"):
        parse(b"[" + b",".join([event] * 4) + b"]", LIMITS)
    assert one('{"type":"' + "x" * 128 + '"}').type == "x" * 128
    assert one('{"type":"a","id":"' + "x" * 200 + '"}').id == "x" * 200
    for long in ('{"type":"' + "x" * 129 + '"}', '{"type":"a","id":"' + "x" * 201 + '"}'):
        with pytest.raises(InvalidEventError):
            one(long)


@pytest.mark.parametrize("wrap", ["%s", "[%s]", '{"events":[%s]}'])
def test_depth_is_that_of_the_event_and_not_of_what_is_around_it(wrap: str) -> None:
    deep = '{"type":"a","x":' + "[" * 4 + "]" * 4 + "}"
    assert parse((wrap % deep).encode(), LIMITS)
    with pytest.raises(InvalidJsonError, match="deeper than 5"):
        parse((wrap % deep.replace("[[", "[[[").replace("]]", "]]]")).encode(), LIMITS)
