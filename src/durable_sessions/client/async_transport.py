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
from durable_sessions.client.pages import Paginator
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import FAILURES, Attempts

T = TypeVar("T")


class AsyncTransport:
    """Sends calls to the server, and retries those that failed for a passing reason."""

    def __init__(self, options: Options, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.options = options
        self._http = httpx2.AsyncClient(**options.http(), transport=transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def attempts(self) -> Attempts:
        """Return a new counter for the attempts of one call."""
        return Attempts(self.options.url, self.options.retries)

    async def send(self, call: ApiCall[T]) -> T:
        """Return the result of a call; raise a ClientError after the last attempt."""
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
        """Send a call once and yield its answer as soon as the head is there; a refusal is read whole."""
        timeout = httpx2.Timeout(self.options.timeout, read=silence_seconds_max)
        async with self._http.stream(
            call.method, call.path, params=call.parameters, headers=call.headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            yield answer

    async def receive(
        self, transfer: ResumableTransfer[T], silence_seconds_max: float
    ) -> AsyncGenerator[T, None]:
        """Yield what one connection delivers, then wait until the next one is due."""
        try:
            async with self.open(transfer.connect(), silence_seconds_max) as answer:
                if answer.is_success:
                    transfer.connected(answer)
                    async for piece in answer.aiter_bytes():
                        for item in transfer.take(piece):
                            yield item
                    pause = transfer.ended()
                else:
                    pause = transfer.refused(answer)
        except FAILURES as error:
            pause = transfer.disconnected(error)
        await asyncio.sleep(pause)

    async def paginate(self, pages: Paginator[T]) -> AsyncIterator[T]:
        """Yield the items of all pages; one page at a time is in memory."""
        while not pages.done:
            for item in pages.take(await self.send(pages.call())):
                yield item


async def _file_pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
