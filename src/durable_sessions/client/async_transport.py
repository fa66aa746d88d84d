"""Sending requests and awaiting their answers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import httpx2

from durable_sessions.client.artifact import PIECE_BYTES
from durable_sessions.client.call import ApiCall
from durable_sessions.client.options import Options
from durable_sessions.client.pages import Walk
from durable_sessions.client.reception import Reception
from durable_sessions.client.retry import FAILURES, Attempts

T = TypeVar("T")


class AsyncTransport:
    """Carries calls to the server, again and again if that is needed and safe."""

    def __init__(self, options: Options, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.options = options
        self._http = httpx2.AsyncClient(**options.http(), transport=transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def attempts(self) -> Attempts:
        """Return what counts the attempts of one call."""
        return Attempts(self.options.url, self.options.retries)

    async def send(self, call: ApiCall[T]) -> T:
        """Return the result of a call, or raise why there is none."""
        attempts = self.attempts()
        while True:
            try:
                answer = await self._http.request(
                    call.method,
                    call.path,
                    params=call.parameters,
                    headers=call.headers,
                    content=call.content if call.file is None else _file_pieces(call.file),
                )
            except FAILURES as error:
                pause = attempts.failed(error)
            else:
                if attempts.is_done(call, answer):
                    return call.result(answer)
                pause = attempts.refused(answer)
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def open(self, call: ApiCall[T], silence_seconds_max: float) -> AsyncIterator[httpx2.Response]:
        """Send a call once and give its answer while it arrives; a refusal has arrived already."""
        timeout = httpx2.Timeout(self.options.timeout, read=silence_seconds_max)
        async with self._http.stream(
            call.method, call.path, params=call.parameters, headers=call.headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            yield answer

    async def receive(self, reception: Reception[T], silence_seconds_max: float) -> AsyncGenerator[T, None]:
        """Yield what one connection brings, then wait until it is time for the next one."""
        try:
            async with self.open(reception.connect(), silence_seconds_max) as answer:
                if answer.is_success:
                    reception.connected(answer)
                    async for piece in answer.aiter_bytes():
                        for item in reception.take(piece):
                            yield item
                    pause = reception.ended()
                else:
                    pause = reception.refused(answer)
        except FAILURES as error:
            pause = reception.disconnected(error)
        await asyncio.sleep(pause)

    async def walk(self, walk: Walk[T]) -> AsyncIterator[T]:
        """Yield the items of all pages; one page at a time is in memory."""
        while not walk.done:
            for item in walk.take(await self.send(walk.call())):
                yield item


async def _file_pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
