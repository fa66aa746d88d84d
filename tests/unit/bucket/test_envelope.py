"""The columns taken from events: strings or nothing, and never a failure."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.envelope import envelope_columns
from tests.unit.bucket.support import json_values


def columns(*messages: bytes) -> list[tuple[str | None, ...]]:
    wire = b"".join(message + b"," for message in messages)
    return list(zip(*envelope_columns(wire, [len(message) + 1 for message in messages]), strict=True))


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b'{"id":"a","type":"b","name":"c","actor":"d"}', ("a", "b", "c", "d")),
        (b' {"x":{"id":"inner"},"type" : "b"} ', (None, "b", None, None)),
        (b'{"id":1,"type":"b","name":null,"actor":{"id":"x"}}', (None, "b", None, None)),
        (b'{"id":"first","id":"last"}', ("last", None, None, None)),
        (b'{"\\u0069d":"escaped key","type":"\\u0041"}', ("escaped key", "A", None, None)),
        (b'{"id":"","type":"\\u0000"}', ("", "\0", None, None)),
        (b'{"text":"\\ud800","type":"b"}', (None, "b", None, None)),
        (b'{"id":"\\ud800","type":"b"}', (None, "b", None, None)),
        (b'{"id":"\\\\ud800","type":"\\ud83d\\ude00"}', ("\\ud800", "😀", None, None)),
        (b'{"x":1e400,"type":"b"}', (None, "b", None, None)),
        (b'{"id":1e400,"type":"b"}', (None, "b", None, None)),
        (b"[]", (None,) * 4),
        (b'["id"]', (None,) * 4),
        (b'"id"', (None,) * 4),
        (b"null", (None,) * 4),
        (b"1", (None,) * 4),
        (b'{"type":"deep","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}", (None,) * 4),
        (b"not json at all", (None,) * 4),
        (b'{"id":"a","type":"\xff"}', (None,) * 4),
        (b"{", (None,) * 4),
    ],
)
def test_members_that_are_strings_are_found(message: bytes, found: tuple[str | None, ...]) -> None:
    plain = b'{"id":"p","type":"q"}'
    assert columns(message) == [found]
    assert columns(plain, message, plain) == [("p", "q", None, None), found, ("p", "q", None, None)]


def test_no_messages_have_no_columns() -> None:
    assert columns() == []


@given(st.lists(json_values, max_size=5))
def test_it_agrees_with_a_plain_decoder(messages: list[bytes]) -> None:
    for message, found in zip(messages, columns(*messages), strict=True):
        value = json.loads(message)
        members = value if isinstance(value, dict) else {}
        for name, got in zip(("id", "type", "name", "actor"), found, strict=True):
            wanted = members.get(name)
            if got is None:
                # Lone surrogates cannot be stored as text and count as absent.
                assert not isinstance(wanted, str) or _lone(wanted)
            else:
                assert got == wanted


def _lone(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
