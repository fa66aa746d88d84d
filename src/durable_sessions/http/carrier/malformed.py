"""What is wrong with bytes that are not an HTTP request, and which path they are for, as far as they tell."""

import re

from durable_sessions.http.carrier.request_head import origin_form

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_2 = b"PRI * HTTP/2"
_TARGET = re.compile(rb"[\r\n]*[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64} ([^ \r\n?]{1,2048})")
_PROBLEMS = (
    ("with Transfer-Encoding", "Content-Length and Transfer-Encoding are both there; send one of them"),
    ("Content-Length", "the value of Content-Length is no number of bytes"),
    ("Transfer-Encoding", "the only transfer coding is chunked, in HTTP/1.1"),
    ("Connection: close", "more bytes came after a request with Connection: close"),
    ("chunk", "a chunk does not have the form of a size in hexadecimal digits, its bytes, and line ends"),
    ("header", "a header line does not have the form name: value"),
    ("version", "the version is not HTTP/1.1 or HTTP/1.0"),
    ("HTTP/", "the version is not HTTP/1.1 or HTTP/1.0"),
    ("method", "they do not begin with a method such as GET, and a path"),
    ("url", "the target is not a path such as /v1/sessions"),
    ("CR", "a line does not end in CR and LF"),
    ("LF", "a line does not end in CR and LF"),
)
"""What the parser says, by a word of it, in words for whoever sent the bytes."""


def problem(error: Exception, data: bytes) -> str:
    """Return why bytes are not a request; ``data`` are those that the parser stopped in."""
    if data.startswith(_TLS_HANDSHAKE):
        return (
            "they begin a TLS handshake, and this server speaks plain HTTP; use http:// instead of https://, "
            "or a proxy with a certificate in front of it"
        )
    if data.startswith(_HTTP_2):
        return "they begin HTTP/2; send HTTP/1.1"
    said = str(error)
    return next((ours for word, ours in _PROBLEMS if word in said), "a part of it has another form")


def path_of(data: bytes) -> bytes:
    """Return the path in the first line of bytes that the parser does not understand, empty if none."""
    found = _TARGET.match(data)
    return b"" if found is None else origin_form(found[1])
