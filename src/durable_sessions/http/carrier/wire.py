"""Encoding of answers as HTTP/1.1."""

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

from durable_sessions.http.carrier.message import Header, Response

ALLOWED_METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"

# Common request headers in both usual spellings, mapped to lower case: one look-up instead of a new string,
# whose hash would have to be computed again.
HEADER_NAMES = {
    spelling: name.lower()
    for name in (
        b"Accept Accept-Encoding Accept-Language Authorization Cache-Control Connection Content-Length "
        b"Content-Type Cookie Expect Host If-Match If-None-Match Last-Event-ID Origin Producer-Epoch "
        b"Producer-Id Producer-Seq Referer Stream-Closed Stream-Expires-At Stream-Fork-Offset "
        b"Stream-Forked-From Stream-Seq Stream-TTL Transfer-Encoding User-Agent X-Api-Key"
    ).split()
    for spelling in (name, name.lower())
}

BODILESS_STATUSES = frozenset({204, 304})

# What an answer needs to know about its request; as bits, so that the usual case is a comparison with zero.
HEAD_REQUEST = 1
LAST_REQUEST = 2
HTTP_1_0 = 4

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def header_lines(headers: Sequence[Header]) -> bytes:
    """Return the header lines; raise if a value contains a line break (header injection)."""
    count = len(headers)
    lines = b"%b: %b\r\n" % headers[0] if count == 1 else b"".join([b"%b: %b\r\n" % one for one in headers])
    if lines.count(b"\n") != count or lines.count(b"\r") != count:
        raise ValueError("a header contains a line break")
    return lines


class Heads(dict[int, bytes]):
    """Maps a status to the part of the head that is the same for all requests of this second."""

    def __init__(self, common: Sequence[Header]) -> None:
        super().__init__()
        self._common = common
        self._second = -1
        self._rest = b""

    def tick(self, now_ms: int) -> None:
        """Set the time that ``Date`` shows."""
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            date = formatdate(second, usegmt=True).encode()
            self._rest = header_lines([*self._common, (b"Date", date)])
            self.clear()

    def __missing__(self, status: int) -> bytes:
        head = b"HTTP/1.1 %d %b\r\n%b" % (status, _reason(status), self._rest)
        self[status] = head
        return head


def encode_response(heads: Heads, response: Response, flags: int, request_id: bytes) -> bytes:
    """Return the whole answer (without the body for ``HEAD``, 204 and 304)."""
    # Joined, not formatted: formatting a large body takes thirty times as long as copying it.
    return b"".join(encode_parts(heads, response, flags, request_id))


def encode_parts(
    heads: Heads, response: Response, flags: int, request_id: bytes
) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the answer in parts, the body last, so that a large body need not be copied."""
    status = response.status
    headers = response.headers
    lines = header_lines(headers) if headers else b""
    if flags:
        lines += connection_line(flags)
    if status in BODILESS_STATUSES or flags & HEAD_REQUEST:
        if status not in BODILESS_STATUSES and not has_length(headers):
            lines += b"Content-Length: %d\r\n" % len(response.body)
        return heads[status], lines, b"request-id: %b\r\n\r\n" % request_id, b""
    body = response.body
    length = b"request-id: %b\r\nContent-Length: %d\r\n\r\n" % (request_id, len(body))
    return heads[status], lines, length, body


def encode_stream_head(
    heads: Heads, status: int, headers: Sequence[Header], flags: int, request_id: bytes
) -> bytes:
    """Return the head of a streamed answer: with a length, chunked, or (HTTP/1.0) ended by closing."""
    lines = header_lines(headers) + connection_line(flags)
    if status not in BODILESS_STATUSES and not flags & HEAD_REQUEST and is_chunked(headers, flags):
        lines += b"Transfer-Encoding: chunked\r\n"
    return b"%b%brequest-id: %b\r\n\r\n" % (heads[status], lines, request_id)


def is_chunked(headers: Sequence[Header], flags: int) -> bool:
    """Say whether a streamed answer is chunked: its length is unknown and the peer speaks HTTP/1.1."""
    return not flags & HTTP_1_0 and not has_length(headers)


def has_length(headers: Sequence[Header]) -> bool:
    """Say whether the application gave the length itself, as it may for ``HEAD`` and streamed answers."""
    return any(name.lower() == b"content-length" for name, _ in headers)


def connection_line(flags: int) -> bytes:
    """Return the line that says whether the connection stays open, where the protocol does not."""
    if flags & LAST_REQUEST:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if flags & HTTP_1_0 else b""


def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""
