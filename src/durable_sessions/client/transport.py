"""Sending requests and waiting for their answers."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx2

from durable_sessions.client.artifact import file_pieces
from durable_sessions.client.call import ApiCall
from durable_sessions.client.options import Options
from durable_sessions.client.pages import Paginator
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import FAILURES, Attempts

T = TypeVar("T")


class Transport:
    """Sends calls to the server, and retries those that failed for a passing reason."""

    def __init__(self, options: Options, transport: httpx2.BaseTransport | None = None) -> None:
        self.options = options
        self._http = httpx2.Client(**options.http(), transport=transport)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def attempts(self) -> Attempts:
        """Return a new counter for the attempts of one call."""
        return Attempts(self.options.url, self.options.retries)

    def send(self, call: ApiCall[T]) -> T:
        """Return the result of a call; raise a ClientError after the last attempt."""
        attempts = self.attempts()
        while True:
            try:
                answer = self._http.request(
                    call.method,
                    call.path,
                    params=call.parameters,
                    headers=call.headers,
                    content=call.content if call.file is None else file_pieces(call.file),
                )
            except FAILURES as error:
                pause = attempts.failed(error)
            else:
                if attempts.is_done(call, answer):
                    return call.result(answer)
                pause = attempts.refused(answer)
            time.sleep(pause)

    @contextmanager
    def open(self, call: ApiCall[T], silence_seconds_max: float) -> Iterator[httpx2.Response]:
        """Send a call once and yield its answer as soon as the head is there; a refusal is read whole."""
        timeout = httpx2.Timeout(self.options.timeout, read=silence_seconds_max)
        with self._http.stream(
            call.method, call.path, params=call.parameters, headers=call.headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                answer.read()
            yield answer

    def receive(self, transfer: ResumableTransfer[T], silence_seconds_max: float) -> Generator[T, None, None]:
        """Yield what one connection delivers, then wait until the next one is due."""
        try:
            with self.open(transfer.connect(), silence_seconds_max) as answer:
                if answer.is_success:
                    transfer.connected(answer)
                    for piece in answer.iter_bytes():
                        yield from transfer.take(piece)
                    pause = transfer.ended()
                else:
                    pause = transfer.refused(answer)
        except FAILURES as error:
            pause = transfer.disconnected(error)
        time.sleep(pause)

    def paginate(self, pages: Paginator[T]) -> Iterator[T]:
        """Yield the items of all pages; one page at a time is in memory."""
        while not pages.done:
            yield from pages.take(self.send(pages.call()))
