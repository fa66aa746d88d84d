"""Heads that were parsed once: whatever is taken past the parser, the parser would have understood alike."""

from dataclasses import replace

import httptools
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.carrier.known_head import (
    DATA_BYTES_MAX,
    KnownHead,
    KnownHeads,
    can_know,
    learn,
)
from durable_sessions.http.carrier.message import Request, Response, Waiting
from durable_sessions.limits import DEFAULT_LIMITS

FIRST = (
    b"POST /v1/stream/a HTTP/1.1\r\n"
    b"Host: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
)


class Learned:
    """A fast path that only keeps the headers."""

    def common(self, request: Request) -> object | None:
        assert (request.method, request.query, request.body) == (b"POST", b"", b"")
        return request.headers

    def take(self, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
        raise AssertionError("nothing is taken here")

    def refusal(
        self, common: object, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        raise AssertionError("nothing is taken here")

    def whole(self, common: object, target: bytes, body: bytes) -> Request:
        raise AssertionError("nothing is taken here")


class Parsed:
    """What httptools finds in input: its requests as (target, headers, body)."""

    def __init__(self, data: bytes) -> None:
        self.requests: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]] = []
        self.keeps_open = True
        self._parser = httptools.HttpRequestParser(self)
        self.on_message_begin()
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._body = b"", b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.rstrip()))

    def on_headers_complete(self) -> None:
        self.keeps_open = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"
        assert self._parser.get_method() == b"POST"

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.requests.append((self._url, self._headers, self._body))


NAMES = st.sampled_from(
    b"Accept|accept|User-Agent|Content-Type|Host|X-A|Connection|Expect|Transfer-Encoding|Content-Length|"
    b"content-length|Upgrade|Te|X\x00|X Y|".split(b"|")
)
VALUES = st.one_of(
    st.sampled_from([b"*/*", b"a b", b"keep-alive", b"close", b"chunked", b"5", b"0", b"+2", b"2, 2", b""]),
    st.binary(max_size=8),
)
BREAKS = st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r", b"\r\n ", b"\r\n\t", b"\r\r\n"])
COLONS = st.sampled_from([b": "] * 8 + [b":", b" : ", b":\t", b":  "])
LENGTHS = st.sampled_from([None] * 10 + [b"+2", b"0002", b"2 ", b" 2", b"2a", b"", b"-1", b"99", b"1e1"])
TARGETS = st.sampled_from(
    [b"/v1/stream/a"] * 6 + [b"/v1/b%20c", b"/a?b", b"*", b"http://h/a", b"/a b", b"//", b"/a#b", b"/\xff"]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Return a request that is mostly well-formed, and sometimes hostile."""
    body = draw(st.binary(max_size=20))
    length = draw(LENGTHS)
    lines = draw(st.lists(st.tuples(NAMES, COLONS, VALUES), max_size=4))
    lines.append((b"Content-Length", draw(COLONS), b"%d" % len(body) if length is None else length))
    if draw(st.integers(0, 9)):
        lines.append((b"Host", b": ", b"localhost"))
    lines = draw(st.permutations(lines))
    method = draw(st.sampled_from([b"POST"] * 8 + [b"GET", b"post", b"PUT", b" POST", b"\r\nPOST"]))
    version = draw(st.sampled_from([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2", b"http/1.1"]))
    head = b"%b %b %b" % (method, draw(TARGETS), version) + draw(BREAKS)
    head += b"".join(b"%b%b%b%b" % (*line, draw(BREAKS)) for line in lines)
    return head + b"\r\n" + body + draw(st.sampled_from([b""] * 8 + [b"x", FIRST]))


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """Return input with a few bytes changed, put in or left out, and perhaps another body."""
    data = data[: data.find(b"\r\n\r\n") + 4] + draw(st.binary(max_size=12))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from([b"", b"1", b" ", b"\r\n", b"\x00", b":", b"a"]))
        data = data[:at] + put + data[at + draw(st.integers(0, 1)) :]
    return data


def require_alike(known: KnownHead, data: bytes) -> bool:
    """Check that what a known head finds in input is what the parser finds; say whether it found anything."""
    found = known.request(data)
    if found is None:
        return False
    parsed = Parsed(data)
    assert parsed.keeps_open
    ((target, lines, body),) = parsed.requests
    assert found == (target, body)
    headers = dict(lines)
    assert len(headers) == len(lines), "no header comes twice"
    assert int(headers.pop(b"content-length")) == len(body)
    headers.pop(b"connection", None)
    assert headers == known.common
    return True


@given(requests(), st.data())
def test_what_is_taken_past_the_parser_is_what_the_parser_finds(first: bytes, more: st.DataObject) -> None:
    known = learn(first, Learned())
    if known is None:
        first = FIRST
        known = learn(first, Learned())
    assert known is not None
    assert require_alike(known, first)
    for _ in range(4):
        require_alike(known, more.draw(changed(first)))
    require_alike(known, more.draw(requests()))


def test_another_target_and_another_body_are_the_same_head() -> None:
    known = learn(FIRST, Learned())
    assert known is not None
    assert known.request(FIRST) == (b"/v1/stream/a", b"hi")
    other = (
        FIRST.replace(b"stream/a", b"stream/b/c.d").replace(b": 2", b": 11").replace(b"hi", b"how are you")
    )
    assert known.request(other) == (b"/v1/stream/b/c.d", b"how are you")


def test_a_large_request_goes_to_the_parser() -> None:
    known = learn(FIRST, Learned())
    assert known is not None
    head = FIRST[:-7].replace(b"hi", b"") + b"%d\r\n\r\n"
    most = DATA_BYTES_MAX - len(head % 65_000)
    assert known.request(head % most + bytes(most)) == (b"/v1/stream/a", bytes(most))
    assert known.request(head % (most + 1) + bytes(most + 1)) is None


def test_whatever_differs_goes_to_the_parser() -> None:
    known = learn(FIRST, Learned())
    assert known is not None
    for one in (
        FIRST + b"x",
        FIRST + FIRST,
        FIRST[:-1],
        FIRST.replace(b"POST", b"PUT"),
        FIRST.replace(b"stream/a", b"stream/a%20b"),
        FIRST.replace(b"stream/a", b"stream/a?b=c"),
        FIRST.replace(b"1.1", b"1.0"),
        FIRST.replace(b"text/plain", b"text/html"),
        FIRST.replace(b"Length: 2", b"Length: 0"),
        FIRST.replace(b"Length: 2", b"Length: 2\r\nContent-Length: 2"),
        FIRST.replace(b"Length: 2", b"Length: 2\r\nTransfer-Encoding: chunked"),
        FIRST.replace(b"Length: 2", b"Length: +2"),
        b"",
    ):
        assert known.request(one) is None, one


def test_heads_that_say_how_they_are_carried_are_not_known() -> None:
    for line in (b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close", b"Te: a"):
        assert learn(FIRST.replace(b"Content-Type: text/plain", line), Learned()) is None
    kept = FIRST.replace(b"Content-Type: text/plain", b"Connection: keep-alive")
    assert learn(kept, Learned()) is not None
    assert learn(FIRST.replace(b"Host: localhost\r\n", b""), Learned()) is None
    assert learn(FIRST.replace(b"text/plain", b"t" * 3000), Learned()) is None
    many = b"".join(b"X-%d: a\r\n" % number for number in range(30))
    assert learn(FIRST.replace(b"Host:", many + b"Host:"), Learned()) is None


def test_connections_share_equal_heads() -> None:
    heads = KnownHeads()
    first = learn(FIRST, Learned())
    again = learn(FIRST, Learned())
    other = learn(FIRST.replace(b"text/plain", b"text/html"), Learned())
    assert first is not None
    assert again is not None
    assert other is not None
    assert heads.same(first) is first
    assert heads.same(again) is first
    assert heads.same(other) is other


def test_limits_that_a_known_head_could_exceed_switch_it_off() -> None:
    assert can_know(DEFAULT_LIMITS)
    assert not can_know(replace(DEFAULT_LIMITS, target_bytes_max=1000))
    assert not can_know(replace(DEFAULT_LIMITS, header_bytes_max=1000))
    assert not can_know(replace(DEFAULT_LIMITS, header_count_max=20))
    assert not can_know(replace(DEFAULT_LIMITS, append_body_bytes_max=1000))
