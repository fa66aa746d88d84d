"""A parameter is parsed with the bounds, the words and the default that it is described with."""

import pytest

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.sorted_pages import CREATED, RANKS
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.parts import in_query
from durable_sessions.http.openapi.schemas import choice, whole
from durable_sessions.http.openapi.sessions import SORTS

LIMIT = in_query("limit", whole(minimum=1, maximum=7), "Items; 3 if absent.", default=3)
VERSION = in_query("version", whole(maximum=7), "The newest if absent.")
ORDER = in_query("order", choice("up", "down"), "`down` if absent.", default="down")


def given(query: bytes) -> Parameters:
    return Parameters(Request(b"GET", b"/v1/sessions", query, {}, b""))


def test_what_is_absent_means_the_default() -> None:
    assert given(b"").whole(LIMIT) == 3
    assert given(b"").whole_if_given(VERSION) is None
    assert given(b"").word(ORDER) == "down"


@pytest.mark.parametrize("number", [1, 7])
def test_a_number_at_its_bound_is_taken(number: int) -> None:
    assert given(b"limit=%d" % number).whole(LIMIT) == number


@pytest.mark.parametrize("number", [b"0", b"8", b"-1", b"x", b""])
def test_a_number_past_its_bound_is_refused_with_the_bounds(number: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"limit=.* is not a whole number from 1 to 7"):
        given(b"limit=" + number).whole(LIMIT)


def test_an_optional_number_is_bounded_too() -> None:
    assert given(b"version=0").whole_if_given(VERSION) == 0
    with pytest.raises(InvalidRequestError, match="from 0 to 7"):
        given(b"version=8").whole_if_given(VERSION)


def test_another_word_is_refused_with_those_that_are_described() -> None:
    assert given(b"order=up").word(ORDER) == "up"
    with pytest.raises(InvalidRequestError, match="send up or down"):
        given(b"order=left").word(ORDER)


def test_every_described_sort_can_be_carried_out() -> None:
    assert set(SORTS) == {CREATED, *RANKS}
