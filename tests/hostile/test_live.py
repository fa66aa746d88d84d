"""Live readers who stop reading, vanish, or watch what is taken away: nobody else notices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.hostile.answers import take_apart
from tests.hostile.arena import MIB, Arena
from tests.hostile.crowding import strangers
from tests.hostile.rounds import SEEDS
from tests.hostile.stranger import Stranger, request

pytestmark = pytest.mark.anyio

READERS = 200
HERD = 600
LARGE_STREAMS = 20


def sse(path: bytes, offset: bytes = b"-1") -> bytes:
    return request(b"GET", b"/v1/stream/%b?offset=%b&live=sse" % (path, offset))


def long_poll(path: bytes) -> bytes:
    return request(b"GET", b"/v1/stream/%b?offset=now&live=long-poll" % path)


def append(path: bytes, body: bytes) -> bytes:
    return request(b"POST", b"/v1/stream/" + path, b"Content-Type: text/plain", body=body)


@contextlib.asynccontextmanager
async def written(arena: Arena, path: bytes, body: bytes) -> AsyncIterator[None]:
    """Append to a stream as fast as it goes, until the end or until it is deleted."""

    async def write() -> None:
        async with await Stranger.connect(arena.port) as writer:
            while (await writer.ask(append(path, body))).status == 204:
                pass

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_subscribers_who_stop_reading(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"fast")
        async with (
            strangers(arena, READERS, receive_buffer_bytes=4096) as readers,
            written(arena, b"fast", b"line\n" * 50_000),
        ):
            for reader in readers:
                await reader.send(sse(b"fast"))
            await others.progress()


async def test_large_events_on_many_streams(arena: Arena) -> None:
    """Frames are shared by the subscribers of a stream; those of many streams must not add up."""
    async with arena.attacked() as others, strangers(arena, LARGE_STREAMS) as readers:
        for number, reader in enumerate(readers):
            path = b"large-%d" % number
            await arena.create(path, body=b"\n" * 3 * MIB)  # an empty line is six bytes in an event
            await reader.send(sse(path))
            await read_some(reader, 3 * MIB)
        await others.progress()


@pytest.mark.parametrize("live", [b"sse", b"long-poll"])
async def test_large_records_that_wake_a_herd(arena: Arena, live: bytes) -> None:
    """One record wakes everyone at once, and everyone is to be sent all of it."""
    path = b"woken-" + live
    async with arena.attacked() as others:
        await arena.create(path, b"application/json")
        async with strangers(arena, READERS, receive_buffer_bytes=4096) as herd:
            for reader in herd:
                await reader.send(request(b"GET", b"/v1/stream/%b?offset=now&live=%b" % (path, live)))
            await others.progress()
            line = b"Content-Type: application/json"
            record = request(b"POST", b"/v1/stream/" + path, line, body=b'"%b"' % (b"x" * 6 * MIB))
            assert (await arena.ask(record)).status == 204
            await others.progress()


async def read_some(reader: Stranger, size: int) -> None:
    while size > 0:
        size -= len(await reader.some(MIB))


@pytest.mark.parametrize("seed", SEEDS)
async def test_herds_that_vanish(arena: Arena, seed: int) -> None:
    chance = Random(seed)
    path = b"herd-%d" % seed
    async with arena.attacked() as others:
        await arena.create(path)
        async with strangers(arena, HERD) as herd, written(arena, path, b"x" * 1000):
            for reader in herd:
                await reader.send(chance.choice((sse(path), sse(path, b"now"), long_poll(path))))
            for reader in herd:
                chance.choice((reader.reset, reader.close, reader.half_close))()
                if not chance.randrange(20):
                    await others.progress(1)


async def test_a_stream_that_is_deleted_under_its_readers(arena: Arena) -> None:
    async with arena.attacked() as others:
        await arena.create(b"doomed")
        async with strangers(arena, READERS) as readers:
            waiting = readers[::2]
            for number, reader in enumerate(readers):
                await reader.send(long_poll(b"doomed") if reader in waiting else sse(b"doomed"))
                if number % 50 == 0:
                    await others.progress(1)
            for reader in readers:
                if reader not in waiting:
                    assert (await reader.some()).startswith(b"HTTP/1.1 200 ")
            assert (await arena.ask(request(b"DELETE", b"/v1/stream/doomed"))).status == 204
            for reader in waiting:
                answer = await reader.answer()
                assert (answer.status, answer.error) == (404, "stream_not_found")
            await asyncio.gather(*(ended(reader) for reader in readers if reader not in waiting))


async def ended(reader: Stranger) -> None:
    """Expect the end of a chunked body; the connection itself may go on."""
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        data = await reader.some()
        assert data
        received += data
    assert (await reader.ask(request(b"GET", b"/livez"))).status == 200


async def test_streams_that_come_and_go_while_they_are_read(arena: Arena) -> None:
    async with arena.attacked() as others:
        for number in range(20):
            path = b"brief-%d" % (number % 2)
            await arena.ask(request(b"PUT", b"/v1/stream/" + path, b"Content-Type: text/plain", body=b""))
            async with strangers(arena, 10) as readers, written(arena, path, b"x" * 100_000):
                for reader in readers:
                    await reader.send(sse(path) + long_poll(path) + append(path, b"y"))
                await others.progress(1)
                await arena.ask(request(b"DELETE", b"/v1/stream/" + path))
                for reader in readers:
                    take_apart(await reader.until_quiet(0.001))
