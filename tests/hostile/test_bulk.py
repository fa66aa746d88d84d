"""Input in bulk: heads, bodies and pipelines that are large, many, or both."""

import asyncio
import itertools

import pytest

from tests.hostile.answers import Received, take_apart
from tests.hostile.arena import MIB, Arena
from tests.hostile.crowding import strangers
from tests.hostile.stranger import request

pytestmark = pytest.mark.anyio

JSON = b"Content-Type: application/json"
TEXT = b"Content-Type: text/plain"
BODY_BYTES = 8 * MIB
LONG_POLL = request(b"GET", b"/v1/stream/%b?offset=now&live=long-poll")


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {"linger_seconds_max": 0.5}


def statuses(answers: list[Received]) -> list[tuple[int, str]]:
    return [(answer.status, answer.error) for answer in answers]


HUGE = {
    "a target": (b"GET /" + b"a" * 100_000, 414, "target_too_long"),
    "a header name": (b"GET / HTTP/1.1\r\n" + b"n" * 200_000, 431, "headers_too_large"),
    "a header value": (b"GET / HTTP/1.1\r\nX: " + b"v" * 200_000, 431, "headers_too_large"),
    "many headers": (
        request(b"GET", b"/", *(b"X-%d: y" % n for n in range(500))),
        431,
        "headers_too_large",
    ),
    "one header many times": (request(b"GET", b"/", *[b"X: y"] * 500), 431, "headers_too_large"),
    "large headers": (request(b"GET", b"/", *[b"X: " + b"y" * 4000] * 20), 431, "headers_too_large"),
    "a declared body": (
        request(b"POST", b"/v1/stream/x", TEXT, b"Content-Length: %d" % (BODY_BYTES + 1)),
        413,
        "body_too_large",
    ),
    "a chunk": (
        request(b"POST", b"/v1/stream/x", TEXT, b"Transfer-Encoding: chunked")
        + b"ffffffff\r\n"
        + b"x" * 10 * MIB,
        413,
        "body_too_large",
    ),
    "chunks": (
        request(b"POST", b"/v1/stream/x", TEXT, b"Transfer-Encoding: chunked")
        + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 200,
        413,
        "body_too_large",
    ),
    "an extension": (
        request(b"POST", b"/v1/stream/x", TEXT, b"Transfer-Encoding: chunked") + b"1;" + b"e" * 200_000,
        431,
        "headers_too_large",
    ),
    "trailers": (
        request(b"POST", b"/v1/stream/x", TEXT, b"Transfer-Encoding: chunked")
        + b"0\r\n"
        + b"T: v\r\n" * 50_000,
        431,
        "headers_too_large",
    ),
}


async def test_what_is_huge_is_refused(arena: Arena) -> None:
    async with arena.attacked() as others:
        for why, (data, status, code) in HUGE.items():
            assert statuses(await arena.refused(data)) == [(status, code)], why
        await others.progress()


async def test_chunks_of_one_byte(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"tiny")
        head = request(b"POST", b"/v1/stream/tiny", TEXT, b"Transfer-Encoding: chunked")
        async with strangers(arena, 10) as peers:
            sent = [peer.ask(head + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n") for peer in peers]
            assert [answer.status for answer in await asyncio.gather(*sent)] == [204] * 10
        await others.progress()
        assert await arena.content(b"tiny") == b"x" * 500_000


async def test_bodies_without_their_end(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"unended")
        head = request(b"POST", b"/v1/stream/unended", TEXT, b"Content-Length: %d" % BODY_BYTES)
        async with strangers(arena, 24) as peers:
            pushed = [asyncio.create_task(peer.send(head + b"x" * (BODY_BYTES - 1))) for peer in peers]
            await others.progress()
            await asyncio.gather(*pushed)
            told = [statuses(take_apart(await peer.until_quiet(0.01))) for peer in peers]
        assert [(503, "overloaded")] in told
        assert all(answers in ([], [(503, "overloaded")]) for answers in told)
        assert await arena.content(b"unended") == b""


async def test_bodies_that_wait_for_their_turn(arena: Arena) -> None:
    """A body behind a long-poll is complete, but cannot be appended yet; all of them are bounded together."""
    async with arena.attacked() as others:
        await arena.create(b"queued")
        body = request(b"POST", b"/v1/stream/queued", TEXT, body=b"x" * (BODY_BYTES - 1))
        async with strangers(arena, 50) as peers:
            sent = [
                asyncio.create_task(peer.send(LONG_POLL.replace(b"%b", b"queued") + body)) for peer in peers
            ]
            await others.progress()
            assert (await arena.ask(request(b"POST", b"/v1/stream/queued", TEXT, body=b"!"))).status == 204
            await asyncio.gather(*sent)
            await others.progress()
            last = [take_apart(await peer.until_quiet(0.05))[1:] for peer in peers]
        refused = [answers for answers in last if answers and answers[-1].status == 503]
        assert refused


async def test_heads_that_wait_for_their_end(arena: Arena) -> None:
    async with arena.attacked() as others, strangers(arena, 1200) as peers:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: %b\r\n" % (b"v" * 3000) * 18
        for peer in peers:
            await peer.send(head)
        await others.progress()
        told = [statuses(take_apart(await peer.until_quiet(0.001))) for peer in peers]
        assert [(503, "overloaded")] in told


async def test_pipelines_whose_answers_nobody_reads(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"piped", body=b"x" * MIB)
        reads = request(b"GET", b"/v1/stream/piped") * 2000
        async with strangers(arena, 150, receive_buffer_bytes=4096) as peers:
            for peer, _ in itertools.product(peers, range(3)):
                peer.push(reads)
            await others.progress()


async def test_pipelines_with_large_heads(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"heads")
        waits = LONG_POLL.replace(b"%b", b"heads")
        large = request(b"GET", b"/livez", *[b"X: " + b"v" * 3900] * 15)
        async with strangers(arena, 100) as peers:
            sent = [asyncio.create_task(peer.send(waits + large * 16)) for peer in peers]
            await others.progress()
            assert (await arena.ask(request(b"DELETE", b"/v1/stream/heads"))).status == 204
            await asyncio.gather(*sent)


BOMBS = {
    "a long string and many brackets": (
        b'{"a":"' + b"x" * (BODY_BYTES - 2000) + b'","b":[' + b"[]," * 200 + b"1]}",
        204,
    ),
    "many empty lists": (b"[[" + b"[]," * (BODY_BYTES // 9) + b"1]]", 204),
    "many empty strings": (b"[[" + b'"",' * (BODY_BYTES // 3 - 9) + b"1]]", 204),
    "many messages": (b"[" + b"0," * (BODY_BYTES // 2 - 9) + b"0]", 400),
    "many messages and a lone surrogate": (b'["\\ud800",' + b"0," * (BODY_BYTES // 2 - 9) + b"0]", 400),
    "many messages without an end": (b"[" + b"0," * (BODY_BYTES // 2 - 9), 400),
    "many escapes and a lone surrogate": (b'"\\ud800' + b"\\n" * (BODY_BYTES // 2 - 9) + b'"', 204),
    "many lone surrogates": (b'"' + b"\\ud800" * (BODY_BYTES // 6 - 9) + b'"', 204),
    "many escapes without an end": (b'"' + b"\\u" * (BODY_BYTES // 2 - 9), 400),
    "a deep nest": (b"[" * (BODY_BYTES // 2) + b"]" * (BODY_BYTES // 2), 400),
    "a deep nest without an end": (b'{"a":' * (BODY_BYTES // 5), 400),
    "a long number": (b"9" * BODY_BYTES, 204),
}


async def test_json_bombs(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"bombs", b"application/json")
        for why, (body, status) in BOMBS.items():
            answer = await arena.ask(request(b"POST", b"/v1/stream/bombs", JSON, body=body))
            assert answer.status == status, (why, answer)
        await others.progress()


async def test_subscription_bombs(arena: Arena) -> None:
    async with arena.attacked() as others:
        target = b"/v1/stream/__ds/subscriptions/bomb"
        for why, (body, _) in BOMBS.items():
            wrapped = b'{"type":"webhook","streams":' + body[:-40] + b"}"
            answer = await arena.ask(request(b"PUT", target, body=wrapped))
            assert (answer.status, answer.error) == (400, "INVALID_REQUEST"), why
        await others.progress()
