"""Requests that two parsers could read differently: refused, and what they carry is never done."""

import pytest

from tests.hostile.arena import Arena
from tests.hostile.stranger import Stranger, chunked, request

pytestmark = pytest.mark.anyio

HIDDEN = request(b"POST", b"/v1/stream/canary", b"Content-Type: text/plain", body=b"smuggled")
HEAD = b"POST /v1/stream/outer HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
END = b"0\r\n\r\n"

AMBIGUOUS = {
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "chunks and length": CHUNKED + b"Content-Length: 5\r\n\r\n" + END,
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 9\r\n\r\n",
    "the same length twice": HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
    "a list of lengths": HEAD + b"Content-Length: 4, 4\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +4\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -4\r\n\r\n",
    "a length in hex": HEAD + b"Content-Length: 0x4\r\n\r\n",
    "a length with a space": HEAD + b"Content-Length: 4 4\r\n\r\n",
    "a length of letters": HEAD + b"Content-Length: four\r\n\r\n",
    "an empty length": HEAD + b"Content-Length:\r\n\r\n",
    "a length beyond 64 bits": HEAD + b"Content-Length: 18446744073709551620\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + END,
    "two codings in a list": HEAD + b"Transfer-Encoding: identity, chunked\r\n\r\n" + END,
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + END,
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + END,
    "chunked misspelt": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + END,
    "chunked in quotes": HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n' + END,
    "chunked after a control character": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + END,
    "a coding before a space": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + END,
    "a coding before a tab": HEAD + b"Transfer-Encoding\t: chunked\r\n\r\n" + END,
    "a name with a NUL": HEAD + b"Content-Length\x00: 4\r\n\r\n",
    "a line that is folded": HEAD + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n" + END,
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + END,
    "a bare line feed": HEAD + b"X: a\nContent-Length: 4\r\n\r\n",
    "a bare carriage return": HEAD + b"X: a\rContent-Length: 4\r\n\r\n",
    "lines ended by line feeds": (HEAD + b"Content-Length: 0\r\n\r\n").replace(b"\r\n", b"\n"),
    "a head ended by line feeds": HEAD + b"Content-Length: 4\n\n",
    "a space before the first header": b"POST /v1/stream/outer HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "a header without a colon": HEAD + b"Content-Length 4\r\n\r\n",
    "a header without a name": HEAD + b": 4\r\n\r\n",
    "two hosts": HEAD + b"Host: b\r\nContent-Length: 0\r\n\r\n",
    "no host": b"POST /v1/stream/outer HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "chunks in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0") + b"\r\n" + END,
    "a negative chunk": CHUNKED + b"\r\n-1\r\nx\r\n" + END,
    "a signed chunk": CHUNKED + b"\r\n+1\r\nx\r\n" + END,
    "a chunk with a prefix": CHUNKED + b"\r\n0x1\r\nx\r\n" + END,
    "a chunk beyond 64 bits": CHUNKED + b"\r\n10000000000000001\r\nx\r\n" + END,
    "a chunk after a space": CHUNKED + b"\r\n 1\r\nx\r\n" + END,
    "a chunk without a size": CHUNKED + b"\r\n\r\nx\r\n" + END,
    "a chunk with a semicolon only": CHUNKED + b"\r\n;a=b\r\nx\r\n" + END,
    "a chunk ended by a line feed": CHUNKED + b"\r\n1\nx\n0\n\n",
    "a chunk longer than its size": CHUNKED + b"\r\n1\r\nxyz\r\n" + END,
    "an extension with a line feed": CHUNKED + b"\r\n1;a\nb\r\nx\r\n" + END,
    "an extension with a NUL": CHUNKED + b"\r\n1;a\x00b\r\nx\r\n" + END,
    "a trailer that is folded": CHUNKED + b"\r\n1\r\nx\r\n0\r\nA: b\r\n c\r\n\r\n",
    "a length in the trailers": CHUNKED + b"\r\n1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n",
    "HTTP/0.9": b"POST /v1/stream/outer\r\n\r\n",
    "HTTP/1.2": HEAD.replace(b"1.1", b"1.2") + b"Content-Length: 0\r\n\r\n",
    "HTTP/11": HEAD.replace(b"1.1", b"11") + b"Content-Length: 0\r\n\r\n",
    "a tab for a space": HEAD.replace(b" HTTP", b"\tHTTP") + b"Content-Length: 0\r\n\r\n",
    "a space in the target": HEAD.replace(b"outer", b"out er") + b"Content-Length: 0\r\n\r\n",
    "a NUL in the target": HEAD.replace(b"outer", b"out\x00er") + b"Content-Length: 0\r\n\r\n",
    "a line feed in the target": HEAD.replace(b"outer", b"out\ner") + b"Content-Length: 0\r\n\r\n",
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),
}


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {"linger_seconds_max": 0.5}


@pytest.mark.parametrize("portions", [1, 0], ids=["at once", "bytewise"])
async def test_what_is_ambiguous_is_refused_and_nothing_of_it_is_done(arena: Arena, portions: int) -> None:
    name = b"/v1/stream/canary%d" % portions
    async with arena.attacked():
        for path in (b"outer%d" % portions, b"canary%d" % portions):
            await arena.create(path)
        for why, attack in AMBIGUOUS.items():
            data = (
                (attack + HIDDEN).replace(b"/v1/stream/canary", name).replace(b"outer", b"outer%d" % portions)
            )
            async with await Stranger.connect(arena.port) as stranger:
                await send(stranger, data, bytewise=not portions)
                answers = await stranger.refused(b"")
            assert [(answer.status, answer.error) for answer in answers] == [(400, "malformed_request")], why
            assert answers[0].closes, why
        assert await arena.content(b"canary%d" % portions) == b""
        assert await arena.content(b"outer%d" % portions) == b""


async def send(stranger: Stranger, data: bytes, *, bytewise: bool) -> None:
    for piece in [data[at : at + 1] for at in range(len(data))] if bytewise else [data]:
        if not await stranger.send(piece):
            return


UNUSUAL = {
    "an upgrade with a body": (
        HEAD + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 1\r\n\r\nx",
        204,
    ),
    "an upgrade with chunks": (
        CHUNKED + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n" + chunked(b"x"),
        204,
    ),
    "an extension": (CHUNKED + b'\r\n1;a=b;c="d"\r\nx\r\n0;e\r\n\r\n', 204),
    "trailers": (CHUNKED + b"\r\n1\r\nx\r\n0\r\nStream-Closed: true\r\nHost: b\r\n\r\n", 204),
    "a size with zeros in front": (CHUNKED + b"\r\n0000001\r\nx\r\n" + END, 204),
    "a length with zeros in front": (HEAD + b"Content-Length: 0001\r\n\r\nx", 204),
    "names in capitals": (
        HEAD.upper().replace(b"/V1/STREAM/OUTER", b"/v1/stream/outer").replace(b"TEXT/PLAIN", b"text/plain")
        + b"CONTENT-LENGTH: 1\r\n\r\nx",
        204,
    ),
    "two spaces": (HEAD.replace(b" HTTP", b"  HTTP") + b"Content-Length: 1\r\n\r\nx", 204),
    "an absolute target": (HEAD.replace(b"/v1", b"http://b/v1") + b"Content-Length: 1\r\n\r\nx", 204),
    "a length on GET": (HEAD.replace(b"POST", b"GET") + b"Content-Length: 4\r\n\r\nGET ", 200),
    "a length on HEAD": (HEAD.replace(b"POST", b"HEAD") + b"Content-Length: 4\r\n\r\nGET ", 200),
    "chunks on DELETE": (
        CHUNKED.replace(b"POST", b"DELETE").replace(b"outer", b"none") + b"\r\n" + chunked(b"x"),
        404,
    ),
    "TRACE": (HEAD.replace(b"POST", b"TRACE") + b"Content-Length: 0\r\n\r\n", 405),
    "M-SEARCH": (HEAD.replace(b"POST", b"M-SEARCH") + b"Content-Length: 1\r\n\r\nx", 405),
    "PATCH": (HEAD.replace(b"POST", b"PATCH") + b"Content-Length: 1\r\n\r\nx", 405),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    "blank lines before": (b"\r\n\r\n" + HEAD + b"Content-Length: 1\r\n\r\nx", 204),
}


async def test_what_is_unusual_ends_where_it_must(arena: Arena) -> None:
    async with arena.attacked():
        await arena.create(b"outer")
        await arena.create(b"canary")
        for why, (data, status) in UNUSUAL.items():
            async with await Stranger.connect(arena.port) as stranger:
                last = request(b"GET", b"/livez", b"Connection: close")
                answers = await stranger.refused(data + HIDDEN + last)
            assert [answer.status for answer in answers] == [status, 204, 200], why
        assert await arena.content(b"canary") == b"smuggled" * len(UNUSUAL)
        appended = sum(
            data.startswith((HEAD[:5], b"\r\n")) and status == 204 for data, status in UNUSUAL.values()
        )
        assert await arena.content(b"outer") == b"x" * appended


@pytest.mark.parametrize("method", [b"get", b"Post", b"BREW", b"GETS", b"CONNECT", b"PRI"])
async def test_methods_that_nothing_here_knows(arena: Arena, method: bytes) -> None:
    target = b"a:80" if method == b"CONNECT" else b"/v1/stream/none"
    answers = await arena.refused(request(method, target) + HIDDEN.replace(b"canary", b"none"))
    assert [answer.status for answer in answers] == [400 if method == b"PRI" else 405]
    assert answers[0].closes


async def test_expectations(arena: Arena) -> None:
    await arena.create(b"expect")
    line = b"Content-Type: text/plain"
    for expectation, continues in ((b"100-continue", 1), (b"100-CONTINUE", 1), (b"200-ok", 0), (b"", 0)):
        head = request(
            b"POST", b"/v1/stream/expect", line, b"Expect: " + expectation, b"Connection: close", body=b"x"
        )
        answers = await arena.refused(head)
        assert [answer.status for answer in answers] == [100] * continues + [204], expectation
    too_large = request(b"POST", b"/v1/stream/expect", b"Expect: 100-continue", b"Content-Length: 99999999")
    assert [answer.status for answer in await arena.refused(too_large)] == [413]
