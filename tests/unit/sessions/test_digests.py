"""Digests tell events apart by what clients sent, and are told from what is stored as well."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from durable_sessions.sessions import digests
from durable_sessions.sessions.drafts import Draft, parse
from durable_sessions.sessions.json_members import members
from tests.unit.sessions.json_texts import Text, objects, strings, values

FRONT = '"id":"x",%s"offset":"0_1","created_at":"c","processed_at":"p","actor":"a\\"\\\\",'
KEY = '"request_key":"_k",'


def draft(body: bytes) -> Draft:
    return parse(body, LIMITS)[0]


def digest(body: bytes) -> int:
    return digests.of_sent(members(body))


special = st.sampled_from(
    [
        '"offset"',
        '"actor"',
        '"original_created_at"',
        '"request_key"',
        '"outcome_id"',
        '"max_iterations"',
        '"\\u006friginal_actor"',
    ]
)
kinds = st.sampled_from(["a", "user.define_outcome"])


def test_what_the_server_notes_of_refs_does_not_count() -> None:
    event = draft(b'{"type":"note","id":"x","n":1}')
    front = FRONT % "" + '"ref_incarnations":["0123456789ab"],'
    assert digests.of_stored(event.stored(front)) == event.digest


@given(objects(values, strings | special), kinds, st.sampled_from(["", KEY]))
def test_the_digest_of_what_was_sent_is_told_from_what_is_stored(made: Text, kind: str, key: str) -> None:
    names = [json.loads(name) for name, _ in made.members]
    assume(all(names.count(name) == 1 for name in ("offset", "actor") if name in names))
    assume(not {"created_at", "processed_at"} & set(names))
    assume(not {"id", "type"} & set(names))
    inner = made.text[1:-1]
    at = ',"created_at":"2020-01-01T00:00:00Z"' if len(inner) % 2 else ""
    event = draft(f'{{"type":"{kind}","id":"x"{at}{"," if made.members else ""}{inner}}}'.encode())
    assert event.digest == digests.of_stored(event.stored(FRONT % key))


@pytest.mark.parametrize(
    "same",
    [
        b'{"type":"a","n":1,"id":"x"}',
        b' { "type" : "a" ,\n "n" : 1 } ',
        b'{"created_at":"2020-01-01T00:00:00Z","type":"a","n":1}',
        b'{"type":"a","n":1,"original_created_at":"2020-01-01T00:00:00Z"}',
        b'{"type":"a","n":1,"offset":"0_7","actor":"somebody","processed_at":null}',
        b'{"ref_incarnations":["0123456789ab",null],"imported":"trusted","type":"a","n":1}',
    ],
)
def test_white_space_and_what_the_server_sets_do_not_count(same: bytes) -> None:
    assert digest(same) == digest(b'{"type":"a","n":1}')


@pytest.mark.parametrize(
    "other",
    [
        b'{"type":"b","n":1}',
        b'{"n":1,"type":"a"}',
        b'{"type":"a","n":1.0}',
        b'{"type":"a","n":1,"n":1}',
        b'{"type":"a"}',
        b'{"type":"a","n":"1"}',
        b'{"type":"a","n":1,"m":{"id":"y"}}',
    ],
)
def test_all_else_counts(other: bytes) -> None:
    assert digest(other) != digest(b'{"type":"a","n":1}')


def test_what_the_server_adds_to_an_outcome_does_not_count() -> None:
    sent = b'{"type":"user.define_outcome","description":"d"}'
    stored = json.loads(sent) | {"outcome_id": "outc_1", "max_iterations": None}
    assert digest(json.dumps(stored).encode()) == digest(sent)
    assert digest(json.dumps(stored | {"max_iterations": 3}).encode()) != digest(sent)
    plain = json.dumps(stored | {"type": "other"}).encode()
    assert digest(plain) != digest(b'{"type":"other","description":"d"}')
    front = FRONT % "" + '"outcome_id":"outc_1","max_iterations":null,'
    assert digests.of_stored(draft(sent).stored(front)) == digest(sent)


def test_a_lone_surrogate_is_compared_as_it_is() -> None:
    one, two = (b'{"type":"a","t":"%b"}' % text for text in (b"\\ud800 x", b"\\ud801 x"))
    assert digest(one) == digest(one) != digest(two)
