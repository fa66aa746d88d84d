"""Answers taken apart strictly: whatever was asked, what comes back must be HTTP, and right."""

import json
import re
from dataclasses import dataclass
from typing import Any

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) [ -~]*")
_HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([^\x00-\x08\x0a-\x1f\x7f]*)")
_BODILESS = (100, 204, 304)


@dataclass
class Received:
    """One whole answer, or the beginning of one (``whole`` is false)."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    whole: bool

    @property
    def closes(self) -> bool:
        return self.headers.get(b"connection") == b"close"

    @property
    def error(self) -> str:
        """Return the code of an error answer, whose body must be well formed."""
        assert self.headers[b"content-type"] == b"application/json", self
        assert self.headers[b"cache-control"] == b"no-store", self
        said: dict[str, Any] = json.loads(self.body)
        assert said["error"]["message"], self
        if said.get("type") == "error":  # Anthropic's shape, of the sessions face
            assert list(said) == ["type", "error", "request_id"], self
            assert said["error"]["type"], self
            return str(said["error"]["details"]["error_code"])
        assert list(said) == ["error"], self
        return str(said["error"]["code"])

    def check(self) -> None:
        """Fail unless a stranger may be answered like this."""
        assert self.headers[b"x-content-type-options"] == b"nosniff" or self.status == 100, self
        assert self.status < 500 or self.status == 503, self
        if self.status == 503:
            assert self.headers[b"retry-after"] == b"1", self
        if self.status >= 400 and self.whole and self.body:
            assert self.error, self


def take_apart(data: bytes) -> list[Received]:
    """Return the answers in ``data``; all are checked, and only the last one may be incomplete."""
    found: list[Received] = []
    while data:
        assert not found or not found[-1].closes, f"more after the last answer: {data[:200]!r}"
        head, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            assert b"HTTP/1.1 ".startswith(data[:9]) or data.startswith(b"HTTP/1.1 "), data[:200]
            break
        status, headers = _head(head)
        body, whole, data = _body(status, headers, rest)
        found.append(Received(status, headers, body, whole))
        if status != 100:
            found[-1].check()
    return found


def may_be_whole(data: bytes) -> bool:
    """Say whether ``data`` can be all of one answer that has a body; costs little for large ones."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    status, headers = _head(head)
    if status in _BODILESS:
        return True
    if headers.get(b"transfer-encoding") == b"chunked":
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(headers[b"content-length"])


def _head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = head.split(b"\r\n")
    status = _STATUS_LINE.fullmatch(first)
    assert status, first
    headers: dict[bytes, bytes] = {}
    for line in lines:
        match = _HEADER_LINE.fullmatch(line)
        assert match, line
        assert match[1].lower() not in headers, f"twice: {line!r}"
        headers[match[1].lower()] = match[2]
    return int(status[1]), headers


def _body(status: int, headers: dict[bytes, bytes], rest: bytes) -> tuple[bytes, bool, bytes]:
    if status in _BODILESS or rest.startswith(b"HTTP/1.1 "):  # the latter after HEAD
        return b"", True, rest
    if headers.get(b"transfer-encoding") == b"chunked":
        assert b"content-length" not in headers
        return _chunks(rest)
    if b"content-length" not in headers:
        assert headers[b"connection"] == b"close", "the end is not marked"
        return rest, True, b""
    length = int(headers[b"content-length"])
    return rest[:length], len(rest) >= length, rest[length:]


def _chunks(rest: bytes) -> tuple[bytes, bool, bytes]:
    body = b""
    while True:
        size, end, after = rest.partition(b"\r\n")
        if not end:
            return body, False, b""
        length = int(size, 16)
        if len(after) < length + 2:
            return body + after[:length], False, b""
        assert after[length : length + 2] == b"\r\n"
        if not length:
            return body, True, after[2:]
        body += after[:length]
        rest = after[length + 2 :]
