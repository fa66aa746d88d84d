"""Requests made wrong by chance; the same seed makes the same ones."""

import itertools
from random import Random

from tests.hostile.stranger import chunked, request

_TEXT = b"Content-Type: text/plain"
_JSON = b"Content-Type: application/json"

VALID = [
    request(b"GET", b"/v1/stream/fuzz?offset=-1"),
    request(b"GET", b"/v1/stream/fuzz?offset=now&live=long-poll&cursor=7"),
    request(b"GET", b"/v1/stream/fuzz-json?offset=0000000000000000_0000000000000000&live=sse"),
    request(b"HEAD", b"/v1/stream/fuzz"),
    request(b"OPTIONS", b"/v1/stream/fuzz", b"Origin: https://example.com"),
    request(b"POST", b"/v1/stream/fuzz", _TEXT, body=b"some text"),
    request(b"POST", b"/v1/stream/fuzz-json", _JSON, body=b'[{"a":[1,2.5e3,"\\ud83d\\ude00"]},null]'),
    request(
        b"POST",
        b"/v1/stream/fuzz",
        _TEXT,
        b"Producer-Id: p",
        b"Producer-Epoch: 0",
        b"Producer-Seq: 0",
        b"Stream-Seq: a",
        b'If-Match: "0000000000000000_0000000000000000"',
        body=b"once",
    ),
    request(b"POST", b"/v1/stream/fuzz", _TEXT, b"Transfer-Encoding: chunked") + chunked(b"ab", b"c" * 30),
    request(b"POST", b"/v1/stream/fuzz", _TEXT, b"Expect: 100-continue", body=b"abc"),
    request(b"PUT", b"/v1/stream/fuzz-new", _TEXT, b"Stream-TTL: 60", body=b"first"),
    request(b"PUT", b"/v1/stream/fuzz-e", b"Stream-Expires-At: 2099-01-31T12:00:00Z", b"Stream-Closed: true"),
    request(
        b"PUT",
        b"/v1/stream/fuzz-fork",
        b"Stream-Forked-From: /v1/stream/fuzz",
        b"Stream-Fork-Offset: 0000000000000000_0000000000000000",
        b"Stream-Fork-Sub-Offset: 0",
    ),
    request(b"DELETE", b"/v1/stream/fuzz-new"),
    request(b"GET", b"/v1/stream/__ds/jwks.json"),
    request(
        b"PUT",
        b"/v1/stream/__ds/subscriptions/fuzz",
        body=b'{"type":"pull-wake","wake_stream":"fuzz-wake","pattern":"fuzz/**","lease_ttl_ms":5000}',
    ),
    request(b"POST", b"/v1/stream/__ds/subscriptions/fuzz/claim", body=b'{"worker":"w"}'),
    request(
        b"POST",
        b"/v1/stream/__ds/subscriptions/fuzz/ack",
        b"Authorization: Bearer 1.1999999999.abc",
        body=b'{"wake_id":"w","generation":1,"acks":[{"stream":"fuzz","offset":"-1"}],"done":true}',
    ),
    request(b"GET", b"/metrics", b"Connection: close"),
    request(b"GET", b"/readyz", b"Connection: Upgrade", b"Upgrade: h2c"),
    request(b"GET", b"http://example/livez"),
    b"GET /livez HTTP/1.0\r\n\r\n",
]

_PIECES = [
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\x00", b"\xff", b" ", b"\t", b":", b";", b"%", b"%00", b"%2f"),
    *(b"%ff", b"..", b"/", b"?", b"&", b"=", b'"', b"\\", b"[", b"{", b"-1", b"+1", b"1e999", b"0x10"),
    *(b"9" * 20, b"9" * 400, b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000"),
    *(
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"GET ",
        b"POST ",
        b"HEAD ",
        b"CONNECT ",
        b"TRACE ",
        b"0\r\n\r\n",
    ),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n"),
    *(b"Host: b\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: x\r\n", b"Expect: x\r\n"),
    *(b"If-None-Match: *\r\n", b"Stream-Closed: true\r\n", b"Range: bytes=0-\r\n", b"[" * 300, b"A" * 5000),
]


def noise(chance: Random) -> bytes:
    """Return bytes that are hardly ever a request."""
    return chance.randbytes(chance.randrange(1, 2000))


def mutated(chance: Random) -> bytes:
    """Return one to four requests, pipelined, with up to six faults."""
    data = bytearray(b"".join(chance.choices(VALID, k=chance.randint(1, 4))))
    for _ in range(chance.randint(0, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at:at] = chance.choice(_PIECES)
            case 1:
                data[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 2:
                del data[at : at + chance.randint(1, 20)]
            case 3 if at < len(data):
                data[at] ^= chance.randint(1, 255)
            case _:
                data[at:at] = data[at : at + 30] * chance.randint(1, 30)
    return bytes(data)


def portions(data: bytes, chance: Random) -> list[bytes]:
    """Return ``data`` cut at random places."""
    edges = sorted({0, len(data), *(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))})
    return [data[start:end] for start, end in itertools.pairwise(edges)]
