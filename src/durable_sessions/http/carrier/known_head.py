"""The head of a connection's last append, so that the next one with the same head need not be parsed.

A client that keeps a connection open sends the same header lines over and over, but for the length of the
body. So a head is taken apart once, by the parser and here; after that it is compared. Whatever differs in a
single byte, comes in pieces or together with other input goes to the parser.
"""

import re

from durable_sessions.http.carrier.message import FastPath, Request
from durable_sessions.limits import Limits

DATA_BYTES_MAX = 64 * 1024
"""The largest request that is compared; larger bodies are parsed in slices, and in threads."""
_TARGET_BYTES_MAX = 1024
_HEAD_BYTES_MAX = 2048
_HEADERS_MAX = 24
_LENGTH_DIGITS_MAX = 6
_SHARED_MAX = 256

# Only targets that need no decoding, so that no two spellings name the same thing.
_LINE = re.compile(rb"POST (/[A-Za-z0-9._~/-]{1,%d}) HTTP/1\.1\r\n" % _TARGET_BYTES_MAX).match
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)").fullmatch
_LENGTH = b"content-length"
_OF_THE_CONNECTION = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te"})
"""Headers that say how a request is carried; one with any of them is always parsed."""


def can_know(limits: Limits) -> bool:
    """Say whether every head that can be known is within the limits, which are then not checked again."""
    return (
        limits.target_bytes_max >= _TARGET_BYTES_MAX
        and limits.header_bytes_max >= _HEAD_BYTES_MAX
        and limits.header_count_max >= _HEADERS_MAX
        and limits.append_body_bytes_max >= DATA_BYTES_MAX
    )


class KnownHead:
    """What the requests of a connection have in common, as bytes and as the application understands it."""

    __slots__ = ("_after", "_after_bytes", "_before", "_before_bytes", "common")

    def __init__(self, before: bytes, after: bytes, common: object) -> None:
        self._before = before  # from the first header line to the digits of the length
        self._after = after  # from there to the body
        self._before_bytes = len(before)
        self._after_bytes = len(after)
        self.common = common

    @property
    def lines(self) -> tuple[bytes, bytes]:
        """The header lines around the length of the body."""
        return self._before, self._after

    def request(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return target and body if the input is exactly one request with this head, else None."""
        line = _LINE(data)
        if line is None or len(data) > DATA_BYTES_MAX:
            return None
        at = line.end()
        if not data.startswith(self._before, at):
            return None
        at += self._before_bytes
        end = data.find(b"\r", at, at + _LENGTH_DIGITS_MAX + 1)
        length = data[at:end]
        if end < 0 or not length.isdigit() or not data.startswith(self._after, end):
            return None
        body = data[end + self._after_bytes :]
        return (line[1], body) if len(body) == int(length) else None


class KnownHeads:
    """Heads that several connections have: they share one object."""

    def __init__(self) -> None:
        self._heads: dict[tuple[bytes, bytes], KnownHead] = {}

    def same(self, head: KnownHead) -> KnownHead:
        """Return a head like this one that is known already, or this one."""
        found = self._heads.get(head.lines)
        if found is not None and found.common == head.common:
            return found
        if len(self._heads) >= _SHARED_MAX:
            self._heads.clear()
        self._heads[head.lines] = head
        return head


def learn(data: bytes, fast_path: FastPath) -> KnownHead | None:
    """Return the head of a whole request that was just parsed, None if the next one must be parsed, too."""
    line = _LINE(data)
    end = data.find(b"\r\n\r\n")
    if line is None or not 0 <= end - line.end() < _HEAD_BYTES_MAX:
        return None
    headers: dict[bytes, bytes] = {}
    before = after = b""
    lines = data[line.end() : end].split(b"\r\n")
    for one in lines:
        match = _HEADER(one)
        if match is None or (name := match[1].lower()) in headers:
            return None
        headers[name] = match[2]
        if name == _LENGTH:
            before, after = after + match[1] + b": ", b"\r\n"
        else:
            after += one + b"\r\n"
    length = headers.pop(_LENGTH, b"")
    body = data[end + 4 :]
    if not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX or int(length) != len(body):
        return None
    if len(lines) > _HEADERS_MAX or not _OF_THE_CONNECTION.isdisjoint(headers) or b"host" not in headers:
        return None
    if headers.pop(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    common = fast_path.common(Request(b"POST", line[1], b"", headers, b""))
    return None if common is None else KnownHead(before, after + b"\r\n", common)
