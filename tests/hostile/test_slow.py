"""Clients that take their time: each holds what it was given for as long as is allowed, and no longer."""

import asyncio
import itertools

import pytest

from tests.hostile.answers import Received, take_apart
from tests.hostile.arena import MIB, Arena
from tests.hostile.crowding import strangers
from tests.hostile.stranger import Stranger, request

pytestmark = pytest.mark.anyio

LORISES = 150
STALLED = 50
TRICKLING = 120
DRIP_SECONDS = 0.05
HEAD = b"POST /v1/stream/slow HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {
        "header_seconds_max": 1.0,
        "body_seconds_max": 1.5,
        "idle_seconds_max": 3.0,
        "write_stall_seconds_max": 2.0,
        "linger_seconds_max": 0.5,
    }


async def drip(stranger: Stranger, beginning: bytes, rest: bytes) -> list[Received]:
    """Send one byte at a time, for ever; return what the server says to that."""
    answer = asyncio.create_task(stranger.rest())
    for byte in itertools.chain(beginning, itertools.cycle(rest)):
        if answer.done():
            break
        stranger.push(bytes([byte]))
        await asyncio.sleep(DRIP_SECONDS)
    return take_apart(await answer)


ENDLESS_HEADS = [
    (b"G", b"E"),
    (b"", b"GET /v1/stream/" + b"x" * 99),
    (b"GET / HT", b"T"),
    (b"GET / HTTP/1.1\r\n", b"X-Filler: a\r\n"),
    (b"GET / HTTP/1.1\r\nX: ", b"x"),
]
ENDLESS_BODIES = [
    (HEAD + b"Content-Length: 1000000\r\n\r\n", b"x"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n", b"x"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"T: v\r\n"),
]


async def test_heads_that_never_end(arena: Arena) -> None:
    async with arena.attacked() as others, strangers(arena, LORISES) as lorises:
        attacks = itertools.cycle(ENDLESS_HEADS)
        said = asyncio.gather(*(drip(loris, *next(attacks)) for loris in lorises))
        await others.progress()
        for answers in await said:
            assert [answer.status for answer in answers] in ([408], [405], [400])
            assert answers[0].closes


async def test_bodies_that_never_end(arena: Arena) -> None:
    async with arena.attacked() as others, strangers(arena, LORISES) as lorises:
        await arena.create(b"slow")
        dripping = []
        for loris, (beginning, rest) in zip(lorises, itertools.cycle(ENDLESS_BODIES), strict=False):
            await loris.send(beginning)
            dripping.append(drip(loris, b"", rest))
        said = asyncio.gather(*dripping)
        await others.progress()
        for answers in await said:
            assert [(answer.status, answer.error) for answer in answers] == [(408, "request_timeout")]
        assert await arena.content(b"slow") == b"", "half a body is no append"


async def test_connections_without_a_request(arena: Arena) -> None:
    async with arena.attacked() as others, strangers(arena, LORISES) as lorises:
        for loris in lorises[::2]:
            assert (await loris.ask(request(b"GET", b"/livez"))).status == 200
        for loris in lorises[::3]:
            await loris.send(b"\r\n")
        await others.progress()
        assert set(await asyncio.gather(*(loris.rest() for loris in lorises))) == {b""}


async def test_answers_that_nobody_reads(arena: Arena) -> None:
    """So few that all may wait; then the time limit ends it, though the peers have not moved."""
    async with arena.attacked() as others:
        await arena.create(b"large", body=b"x" * MIB)
        at_work = arena.vitals.sockets()
        async with strangers(arena, STALLED, receive_buffer_bytes=4096) as readers:
            for reader in readers:
                await reader.send(request(b"GET", b"/v1/stream/large") * 20)
            await others.progress()
            await arena.settled(at_work + STALLED // 10)
        await others.progress()


async def test_answers_that_are_read_byte_by_byte(arena: Arena) -> None:
    """Progress, however little, is no stall; so all of them together are bounded instead."""
    async with arena.attacked() as others:
        await arena.create(b"huge", b"application/json", body=b'"%b"' % (b"x" * 6 * MIB))
        async with strangers(arena, TRICKLING, receive_buffer_bytes=4096) as readers:
            for reader in readers:
                await reader.send(request(b"GET", b"/v1/stream/huge"))
            for _ in range(5):
                for reader in readers:
                    await reader.some(1)
                await others.progress(1)
