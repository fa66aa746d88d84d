"""If-Match: offsets, any stream, or one incarnation; everything else is refused."""

import pytest

from durable_sessions.errors import InvalidHeaderError
from durable_sessions.http.api.headers import IfMatch, if_match, matches_etag
from durable_sessions.streams import offsets


def test_a_star_wants_any_stream() -> None:
    assert if_match(" * ") == IfMatch(exists=True)


def test_one_or_several_offsets_are_alternatives() -> None:
    one, two = offsets.encode(3), offsets.encode(7)
    assert if_match(f'"{one}"').tails == frozenset({3})
    assert if_match(f'"{one}", "{two}"').tails == frozenset({3, 7})


def test_an_incarnation_stands_alone() -> None:
    found = if_match('"0123456789ab"')
    assert (found.exists, found.incarnation, found.tails) == (True, "0123456789ab", None)
    with pytest.raises(InvalidHeaderError):
        if_match(f'"0123456789ab", "{offsets.encode(3)}"')


@pytest.mark.parametrize("value", ["", "3", '"three"', '"unfinished', f'"{offsets.encode(1)}" or so'])
def test_anything_else_is_refused(value: str) -> None:
    with pytest.raises(InvalidHeaderError):
        if_match(value)


@pytest.mark.parametrize(
    ("header", "matches"),
    [(b'"a"', True), (b'W/"a"', True), (b'"b", "a"', True), (b"*", True), (b'"b"', False), (b"", False)],
)
def test_an_entity_tag_is_matched_weakly(header: bytes, matches: bool) -> None:
    assert matches_etag(header, '"a"') is matches
