"""Streamed answers over a link: credit, cancelling on both sides, and failures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from durable_sessions.errors import LinkLostError
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Request, Response, StreamingResponse
from tests.support.waiting import until

from .conftest import Connect, Pair
from .test_link import request

pytestmark = pytest.mark.anyio
KIB = 1024


class Source:
    """An endless body that counts what was taken from it, and knows whether it was closed."""

    def __init__(self, chunk: bytes = b"x" * 16 * KIB) -> None:
        self.chunk = chunk
        self.given = 0
        self.closed = False

    def __aiter__(self) -> "Source":
        return self

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)
        self.given += len(self.chunk)
        return self.chunk

    async def aclose(self) -> None:
        self.closed = True


async def open_stream(pair: Pair) -> StreamingResponse:
    answer = await pair.link.ask(0, request(b"/stream"))
    assert isinstance(answer, StreamingResponse)
    return answer


async def read(answer: StreamingResponse) -> bytes:
    return b"".join([chunk async for chunk in answer.chunks])


async def settled(source: Source) -> int:
    """Wait until nothing more is taken from a source; return how much was."""
    before = -1
    while before != source.given:
        before = source.given
        for _ in range(200):
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
    return before


async def test_a_reader_that_stops_holds_no_more_than_its_credit(connect: Connect) -> None:
    sources: list[Source] = []

    def handler(partition: int, asked: Request) -> Any:
        if asked.path == b"/small":
            return Response(200, [], b"small")
        sources.append(Source())
        return StreamingResponse(200, [], sources[-1])

    pair = await connect(handler, link_credit_bytes=256 * KIB)
    slow, quick = await open_stream(pair), await open_stream(pair)
    first, second = sources
    assert await settled(first) <= 256 * KIB + len(first.chunk)
    # Others go on beside it.
    for _ in range(1000):
        await anext(quick.chunks)
    assert second.given > 1000 * KIB
    assert isinstance(await pair.link.ask(0, request(b"/small")), Response)
    assert first.given <= 256 * KIB + len(first.chunk)
    # And it goes on itself when its reader does.
    before = first.given
    for _ in range(100):
        await anext(slow.chunks)
    assert before < await settled(first) <= 100 * 64 * KIB + 256 * KIB + len(first.chunk)
    for stream in (slow, quick):
        await close_iterator(stream.chunks)
    await until(lambda: first.closed and second.closed)


async def test_a_chunk_larger_than_the_credit_arrives(connect: Connect) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x" * 1000 * KIB
        yield b"end"

    pair = await connect(lambda partition, asked: StreamingResponse(200, [], chunks()))
    answer = await open_stream(pair)
    assert b"".join([chunk async for chunk in answer.chunks]) == b"x" * 1000 * KIB + b"end"


async def test_many_small_chunks_never_run_out_of_credit(connect: Connect) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5000):
            yield b"x" * 100

    pair = await connect(
        lambda partition, asked: StreamingResponse(200, [], chunks()), link_credit_bytes=1000
    )
    answer = await open_stream(pair)
    assert sum([len(chunk) async for chunk in answer.chunks]) == 500_000


async def test_a_reader_that_leaves_ends_the_work_of_the_owner(connect: Connect) -> None:
    sources: list[Source] = []

    def handler(partition: int, asked: Request) -> StreamingResponse:
        sources.append(Source())
        return StreamingResponse(200, [], sources[-1])

    pair = await connect(handler)
    answer = await open_stream(pair)
    await anext(answer.chunks)
    await close_iterator(answer.chunks)
    await until(lambda: sources[0].closed)
    await until(lambda: pair.server.counts.open_streams == 0)
    assert pair.link.is_open


async def test_a_body_that_fails_is_aborted_and_not_ended(connect: Connect) -> None:
    async def chunks(error: BaseException) -> AsyncIterator[bytes]:
        yield b"first"
        raise error

    def handler(partition: int, asked: Request) -> StreamingResponse:
        error = ValueError() if asked.body else asyncio.CancelledError()
        return StreamingResponse(200, [], chunks(error))

    pair = await connect(handler)
    for body in (b"", b"x"):
        answer = await pair.link.ask(0, request(body=body))
        assert isinstance(answer, StreamingResponse)
        with pytest.raises(LinkLostError):
            await read(answer)
    assert pair.link.is_open
    assert pair.link.open_streams == 0


async def test_the_end_of_the_link_aborts_streams_and_closes_their_source(connect: Connect) -> None:
    sources: list[Source] = []

    def handler(partition: int, asked: Request) -> StreamingResponse:
        sources.append(Source())
        return StreamingResponse(200, [], sources[-1])

    pair = await connect(handler)
    waiting, unread = await open_stream(pair), await open_stream(pair)
    await settled(sources[0])
    await pair.server.close()
    for answer in (waiting, unread):
        with pytest.raises(LinkLostError):
            await read(answer)
    await until(lambda: all(source.closed for source in sources))


async def test_a_silent_stream_is_aborted_at_once_when_the_link_is_lost(connect: Connect) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    pair = await connect(lambda partition, asked: StreamingResponse(200, [], chunks()))
    answer = await open_stream(pair)
    assert await anext(answer.chunks) == b"first"

    waiting = asyncio.create_task(read(answer))
    await asyncio.sleep(0.01)
    await pair.server.close()
    with pytest.raises(LinkLostError):
        await waiting
