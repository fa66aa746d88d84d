"""The parts of a connection by themselves: what they count is given back, and bounds hold to the byte."""

from dataclasses import replace

import pytest

from durable_sessions.clock import SystemClock
from durable_sessions.errors import (
    ArtifactTooLargeError,
    BodyTooLargeError,
    HeadersTooLargeError,
    OverloadedError,
    ShareExceededError,
    TargetTooLongError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.incomplete_body import CHUNKED, IncompleteBody
from durable_sessions.http.carrier.incomplete_head import SLICE_BYTES, IncompleteHead
from durable_sessions.http.carrier.message import OWN, Request, Response
from durable_sessions.http.carrier.read_ahead import ReadAhead, Refused
from durable_sessions.http.carrier.request_head import (
    below,
    fits,
    has_unknown_method,
    origin_form,
    without_upgrade,
)
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.ui.addresses import kept_base
from durable_sessions.limits import DEFAULT_LIMITS

LIMITS = replace(
    DEFAULT_LIMITS,
    append_body_bytes_max=100,
    request_bytes_max=1_000,
    incomplete_artifact_bytes_max=10_000,
    short_head_bytes_max=10,
    incomplete_head_bytes_max=100,
    target_bytes_max=50,
    header_bytes_max=1_000,
    header_count_max=3,
    pipeline_requests_max=2,
    read_ahead_bytes_max=200,
)
KEY = "key_1"


@pytest.fixture
def state() -> ServerState:
    return ServerState(lambda _: Response(204, []), ANSWER_FORMAT, LIMITS, SystemClock())


def request(body_bytes: int = 0) -> Request:
    return Request(b"POST", b"/", b"", {}, bytes(body_bytes))


# Heads --------------------------------------------------------------------------------------


def test_a_head_counts_for_all_once_it_is_not_short(state: ServerState) -> None:
    head = IncompleteHead(state)
    head.received(10, 0)
    assert state.heads_bytes == 0
    head.received(1, 0)
    assert state.heads_bytes == 11
    head.received(89, 0)
    assert state.heads_bytes == 100
    with pytest.raises(OverloadedError):
        head.received(1, 0)
    IncompleteHead(state).received(10, 0)  # a short one is let in all the same
    head.release()
    head.release()
    assert state.heads_bytes == 0


def test_a_target_and_what_is_not_parsed_yet_are_bounded(state: ServerState) -> None:
    IncompleteHead(state).received(10, 50)
    with pytest.raises(TargetTooLongError):
        IncompleteHead(state).received(10, 51)
    unbounded = replace(LIMITS, incomplete_head_bytes_max=10**9)
    roomy = ServerState(state.handler, ANSWER_FORMAT, unbounded, SystemClock())
    head = IncompleteHead(roomy)
    head.received(1_000 + 4 * 3 + 2 * SLICE_BYTES + 7, 7)
    with pytest.raises(HeadersTooLargeError):
        head.received(1, 7)


@pytest.mark.parametrize(
    ("headers", "repeats", "within"),
    [
        ({b"a": bytes(999)}, (), True),
        ({b"a": bytes(1_000)}, (), False),
        ({b"a": b"1", b"b": b"2", b"c": b"3"}, (), True),
        ({b"a": b"1, 2", b"b": b"2", b"c": b"3"}, (b"a",), False),
        ({b"a": bytes(498) + b", " + bytes(500)}, (b"a",), True),
        ({b"a": bytes(499) + b", " + bytes(500)}, (b"a",), False),
    ],
)
def test_header_lines_are_measured_as_they_came(
    headers: dict[bytes, bytes], repeats: tuple[bytes, ...], within: bool
) -> None:
    assert fits(headers, repeats, LIMITS) is within


@pytest.mark.parametrize(
    ("target", "form"),
    [
        (b"/a?b", b"/a?b"),
        (b"http://host/a?b", b"/a?b"),
        (b"http://host?b", b"/?b"),
        (b"http://host", b"/"),
        (b"*", b"*"),
        (b"1://host/a", b"1://host/a"),
    ],
)
def test_an_absolute_target_loses_its_host(target: bytes, form: bytes) -> None:
    assert origin_form(target) == form


def test_only_a_wellformed_method_is_one_that_is_not_known() -> None:
    assert has_unknown_method(b"\r\nBREW / HTTP/1.1")
    assert has_unknown_method(b"BREW")
    assert not has_unknown_method(b"GET / HTTP/1.1")
    assert not has_unknown_method(b"B(EW / HTTP/1.1")
    assert not has_unknown_method(b"B" * 65)


def test_an_upgrade_is_taken_out_of_a_head_and_its_close_is_not() -> None:
    headers = {b"host": b"h", b"upgrade": b"websocket", b"connection": b"Upgrade, Close"}
    kept = b"GET /a HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
    assert without_upgrade(b"GET", b"/a", "1.1", headers) == kept


# Bodies -------------------------------------------------------------------------------------


def test_a_body_is_counted_for_its_holder_until_it_is_complete(state: ServerState) -> None:
    body = IncompleteBody(state, KEY, 10, 100)
    parts = [b"12", b"345"]
    body.receive(parts, 5)
    assert (parts, len(body), state.requests.of(KEY)) == ([], 5, 5)
    assert body.complete([b"67890"]) == b"1234567890"
    assert state.requests.held == 0


def test_a_body_that_comes_in_one_piece_is_not_copied(state: ServerState) -> None:
    piece = bytes(10)
    assert IncompleteBody(state, KEY, 10, 100).complete([piece]) is piece


def test_a_body_is_refused_by_its_length_or_when_its_chunks_exceed_it(state: ServerState) -> None:
    IncompleteBody(state, KEY, 100, 100)
    with pytest.raises(BodyTooLargeError):
        IncompleteBody(state, KEY, 101, 100)
    with pytest.raises(ArtifactTooLargeError):
        IncompleteBody(state, KEY, 201, 200)
    chunked = IncompleteBody(state, KEY, CHUNKED, 100)
    chunked.receive([bytes(100)], 105)
    with pytest.raises(BodyTooLargeError):
        chunked.receive([b"1"], 6)
    chunked.release()
    last = IncompleteBody(state, KEY, CHUNKED, 100)
    with pytest.raises(BodyTooLargeError):
        last.complete([bytes(101)])
    assert state.requests.held == 0


def test_a_large_body_has_a_budget_of_its_own_and_is_handed_over_as_it_is(state: ServerState) -> None:
    body = IncompleteBody(state, KEY, 101, 200)
    body.receive([bytes(100)], 100)
    assert (state.requests.held, state.large_bodies.of(KEY)) == (0, 100)
    assert body.seconds_max == LIMITS.artifact_body_seconds_max
    whole = body.complete([b"1"])
    assert type(whole).__name__ == "memoryview"
    assert whole == bytes(100) + b"1"
    assert state.large_bodies.held == 0


def test_chunk_headers_without_a_body_are_bounded(state: ServerState) -> None:
    body = IncompleteBody(state, KEY, CHUNKED, 100)
    body.receive([], 1_000 + SLICE_BYTES)
    with pytest.raises(HeadersTooLargeError):
        body.receive([], 1)


def test_bodies_beyond_a_share_are_refused_as_that(state: ServerState) -> None:
    bodies = [IncompleteBody(state, KEY, 100, 100) for _ in range(6)]
    for body in bodies[:5]:
        body.receive([bytes(100)], 100)
    with pytest.raises(ShareExceededError):
        bodies[5].receive([b"1"], 1)
    for body in bodies:
        body.release()
    assert state.requests.held == 0


# What waits ---------------------------------------------------------------------------------


def test_requests_wait_in_order_and_are_counted_while_they_do(state: ServerState) -> None:
    ahead = ReadAhead(state, KEY)
    first, refused = request(10), Refused(OverloadedError(what="this"), b"/", OWN)
    assert bool(ahead) is False
    ahead.add(first, 1)
    ahead.add_refused(refused, 2)
    assert bool(ahead) is True
    assert state.requests.of(KEY) == first.size()
    assert [ahead.next() for _ in range(3)] == [(first, 1), (refused, 2), None]
    assert state.requests.held == 0


def test_the_read_ahead_is_full_by_number_or_by_bytes(state: ServerState) -> None:
    ahead = ReadAhead(state, KEY)
    full = []
    for one in (request(199), request()):
        ahead.add(one, 0)
        full.append(ahead.full)
    assert full == [False, True]
    large = ReadAhead(state, "key_2")
    large.add(request(200), 0)
    assert large.full


def test_what_waits_moves_to_another_holder_and_is_given_back(state: ServerState) -> None:
    ahead = ReadAhead(state, KEY)
    ahead.add(request(9), 0)
    ahead.hold(b"unparsed")
    ahead.move("key_2")
    assert (state.requests.of(KEY), state.requests.of("key_2")) == (0, 18)
    assert ahead.take_unparsed() == b"unparsed"
    assert state.requests.held == 10
    ahead.release()
    assert bool(ahead) is False
    assert state.requests.held == 0


@pytest.mark.parametrize(("holder", "error"), [(KEY, ShareExceededError), (object(), OverloadedError)])
def test_too_much_that_waits_is_refused(state: ServerState, holder: object, error: type[Exception]) -> None:
    ahead = ReadAhead(state, holder)
    ahead.add(request(499), 0)
    with pytest.raises(error):
        ahead.add(request(0), 0)
    with pytest.raises(error):
        ahead.hold(b"1")
    ahead.release()
    assert state.requests.held == 0


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (b"/ds/v1/sessions?limit=1", b"/v1/sessions?limit=1"),
        (b"/ds", b"/"),
        (b"/ds?q=1", b"/?q=1"),
        (b"/dsx/y", b"/dsx/y"),
    ],
)
def test_a_proxy_may_leave_its_path_in_front(target: bytes, seen: bytes) -> None:
    assert below(target, b"/ds") == seen


@pytest.mark.parametrize(
    ("public_url", "base"),
    [
        ("", b""),
        ("https://host", b""),
        ("https://host/ds/", b"/ds"),
        ("https://host/tools/ds", b"/tools/ds"),
        ("https://host/sessions", b""),
        ("https://host/v1/ds", b""),
    ],
)
def test_a_base_that_begins_like_our_own_paths_is_not_taken_off(public_url: str, base: bytes) -> None:
    assert kept_base(public_url) == base
