"""A parameter is parsed with the bounds, the words and the default that it is described with."""

from dataclasses import replace

import pytest

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.sorted_pages import CREATED, RANKINGS
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.common import CREATED_AT
from durable_sessions.http.openapi.events import EventRange
from durable_sessions.http.openapi.parts import in_query
from durable_sessions.http.openapi.schemas import choice, whole
from durable_sessions.http.openapi.sessions import SORTS
from durable_sessions.limits import DEFAULT_LIMITS

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


def test_a_read_of_events_is_bounded_by_the_limits_of_its_server() -> None:
    asked = EventRange(replace(DEFAULT_LIMITS, page_events_max=7))
    assert given(b"").whole(asked.window) == 10
    assert given(b"tail=7&window=3&limit=7").whole(asked.tail) == 7
    assert given(b"window=3").whole(asked.window) == 3
    for query, declared, bounds in (
        (b"tail=8", asked.tail, "tail=8 is not a whole number from 0 to 7"),
        (b"window=4", asked.window, "window=4 is not a whole number from 0 to 3"),
        (b"limit=0", asked.limit, "limit=0 is not a whole number from 1 to 7"),
        (b"from=1099511627777", asked.start, "from 0 to 1099511627776"),
    ):
        with pytest.raises(InvalidRequestError, match=bounds):
            given(query).whole(declared)


def test_a_search_in_a_session_has_a_limit_of_its_own() -> None:
    limits = replace(DEFAULT_LIMITS, page_events_max=9, search_hits_max=30)
    asked = EventRange(limits)
    assert given(b"").whole(asked.found_limit) == 20
    assert given(b"limit=30").whole(asked.found_limit) == 30
    with pytest.raises(InvalidRequestError, match="limit=31 is not a whole number from 1 to 30"):
        given(b"limit=31").whole(asked.found_limit)
    assert "With `q`: 1 to 30; 20 if absent." in asked.limit.text


def test_every_end_of_a_time_is_parsed() -> None:
    query = b"&".join(b"created_at[%b]=2026-01-01T00:00:00Z" % end.encode() for end in CREATED_AT)
    selection = given(query + b"&after=2026-01-01T00:00:00Z&before=2027-01-01T00:00:00Z").selection()
    assert None not in (selection.after_ms, selection.from_ms, selection.before_ms, selection.through_ms)
    assert None not in (selection.happened_after_ms, selection.happened_before_ms)
    with pytest.raises(InvalidRequestError, match=r"created_at\[lt\]=soon is not an RFC 3339 time"):
        given(b"created_at[lt]=soon").selection()


def test_a_day_is_its_first_moment_in_utc() -> None:
    for name in ("after", "before", *(f"created_at[{end}]" for end in CREATED_AT)):
        day, moment = (given(f"{name}={at}".encode()) for at in ("2026-11-16", "2026-11-16T00:00:00Z"))
        assert day.selection() == moment.selection()
        for wrong in ("2026-11-31", "2026-11", "20261116", "2026-11-16Z"):
            with pytest.raises(InvalidRequestError, match="or a day such as 2030-01-31"):
                given(f"{name}={wrong}".encode()).selection()


def test_every_described_sort_can_be_carried_out() -> None:
    assert set(SORTS) == {CREATED, *RANKINGS}
