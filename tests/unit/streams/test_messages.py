import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import EmptyBodyError, InvalidJsonError, InvalidRequestError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams import messages
from durable_sessions.streams.messages import Payload

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=12,
)


def parse(body: bytes) -> Payload:
    return messages.parse(body, json=True, limits=DEFAULT_LIMITS)


def cut(payload: Payload) -> list[bytes]:
    found, at = [], 0
    for length in payload.lengths:
        piece = payload.data[at : at + length]
        assert piece.endswith(b",")
        found.append(piece[:-1])
        at += length
    assert at == len(payload.data)
    return found


@given(st.lists(values, min_size=1), st.sampled_from([None, 2]), st.booleans())
def test_an_array_is_flattened_one_level_and_every_value_survives(
    items: list[object], indent: int | None, ascii_only: bool
) -> None:
    body = json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        body.decode()
    except UnicodeDecodeError:
        with pytest.raises(InvalidJsonError):
            parse(body)
        return
    payload = parse(body)
    assert payload.count == len(items)
    assert [json.loads(piece) for piece in cut(payload)] == json.loads(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a": 1.0}', [b'{"a": 1.0}']),
        (b' \n{"a":12345678901234567890}\t', [b'{"a":12345678901234567890}']),
        (b'{"k":1,"k":2}', [b'{"k":1,"k":2}']),
        (b"[1, 2.50,\t3e5 ]", [b"1", b"2.50", b"3e5"]),
        (b"[[1,2],[3,4]]", [b"[1,2]", b"[3,4]"]),
        (b"[[[1,2,3]]]", [b"[[1,2,3]]"]),
        (b"null", [b"null"]),
        (b'"text"', [b'"text"']),
        (b'"\\ud800"', [b'"\\ud800"']),
        (
            b'[ "\\uD800\\ud800" , {"a":"\\udfff \\\\ud800"},1]',
            [b'"\\uD800\\ud800"', b'{"a":"\\udfff \\\\ud800"}', b"1"],
        ),
    ],
)
def test_bytes_stay_as_they_came(body: bytes, expected: list[bytes]) -> None:
    assert cut(parse(body)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"NaN",
        b"[NaN]",
        b"Infinity",
        b"01",
        b"1 2",
        b"{'a':1}",
        b'"\xff"',
        b'["\xc3"]',
        b'"\xed\xa0\x80"',
        b'"\x01"',
        b"\xef\xbb\xbf{}",
        b'"\\ud800',
        b'["\\ud800",]',
        b'"\\x"',
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJsonError):
        parse(body)


def test_depth_at_the_limit_and_one_past_it() -> None:
    deep = DEFAULT_LIMITS.json_depth_max
    fits = b"[" * deep + b"]" * deep
    assert cut(parse(b"[" + fits + b"]")) == [fits]
    with pytest.raises(InvalidJsonError, match="deeper than 128"):
        parse(b"[[" + fits + b"]]")
    with pytest.raises(InvalidJsonError, match="deeper than 128"):
        parse(b"[" * 100_000 + b"]" * 100_000)


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    body = json.dumps({"text": "[{" * 500 + '\\"[' * 10}).encode()
    assert cut(parse(body)) == [body]


def test_messages_at_the_limit_and_one_past_it() -> None:
    limits = replace(DEFAULT_LIMITS, append_messages_max=3)
    assert messages.parse(b"[1,2,3]", json=True, limits=limits).count == 3
    with pytest.raises(InvalidRequestError, match="at most 3"):
        messages.parse(b"[1,2,3,4]", json=True, limits=limits)


def test_an_empty_array_appends_nothing() -> None:
    assert parse(b" [ ] ") == messages.EMPTY
    with pytest.raises(EmptyBodyError):
        messages.require_some(messages.EMPTY)


@given(st.binary())
def test_other_types_are_taken_as_they_are(body: bytes) -> None:
    payload = messages.parse(body, json=False, limits=DEFAULT_LIMITS)
    assert payload == Payload(body)
    assert payload.count == len(body)
