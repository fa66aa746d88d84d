"""Objects are cut into their members byte for byte."""

import json

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.json_members import members
from tests.unit.sessions.json_texts import Text, objects, spaces, values


@given(objects(values), spaces)
def test_members_are_cut_exactly_where_they_begin_and_end(made: Text, before: str) -> None:
    found = list(members((before + made.text).encode()))
    assert [(one.raw_key.decode(), one.value.decode()) for one in found] == list(made.members)


few = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""'])
numbers = st.sampled_from(["1", "12", "123", "1.0", '"1"', "[1]", "{}"])


@given(objects(numbers, few), spaces)
def test_no_member_is_hidden_by_another_of_the_same_name(made: Text, before: str) -> None:
    found = list(members((before + made.text).encode()))
    assert [(one.raw_key.decode(), one.value.decode()) for one in found] == list(made.members)


@given(objects(values))
def test_members_are_those_that_json_finds(made: Text) -> None:
    expected = json.loads(made.text, object_pairs_hook=list)
    found = [(one.key, json.loads(one.value, object_pairs_hook=list)) for one in members(made.text.encode())]
    assert found == expected


@given(st.text(max_size=20))
def test_keys_are_read_however_they_are_escaped(name: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in name):
        return
    for ascii_only in (True, False):
        text = json.dumps({name: 1}, ensure_ascii=ascii_only)
        assert [one.key for one in members(text.encode())] == [name]
