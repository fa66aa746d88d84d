"""Large bodies: their memory is reserved once, and takes no more than has arrived."""

from durable_sessions.http.carrier.large_body import LargeBody
from durable_sessions.limits import MIB


def test_what_arrives_is_kept_in_order() -> None:
    body = LargeBody(10)
    assert len(body) == 0
    body.extend(b"abc")
    body.extend(b"")
    body.extend(b"defg")
    assert (len(body), bytes(body.view())) == (7, b"abcdefg")


def test_it_takes_as_much_as_was_reserved_and_counts_what_is_too_much() -> None:
    body = LargeBody(4)
    body.extend(b"abcd")
    assert bytes(body.view()) == b"abcd"
    body.extend(b"e")
    assert len(body) == 5, "so that it can be refused"


def test_the_view_outlives_the_body() -> None:
    body = LargeBody(64 * MIB)
    body.extend(b"kept")
    view = body.view()
    del body
    assert bytes(view) == b"kept"
