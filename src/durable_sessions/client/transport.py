"""Sending requests and waiting for their answers."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx2

from durable_sessions.client.artifact import file_pieces
from durable_sessions.client.call import ApiCall
from durable_sessions.client.options import Options
from durable_sessions.client.pages import Walk
from durable_sessions.client.reception import Reception
from durable_sessions.client.retry import FAILURES, Attempts

T = TypeVar("T")


class Transport:
    """Carries calls to the server, again and again if that is needed and safe."""

    def __init__(self, options: Options, transport: httpx2.BaseTransport | None = None) -> None:
        self.options = options
        self._http = httpx2.Client(**options.http(), transport=transport)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def attempts(self) -> Attempts:
        """Return what counts the attempts of one call."""
        return Attempts(self.options.url, self.options.retries)

    def send(self, call: ApiCall[T]) -> T:
        """Return the result of a call, or raise why there is none."""
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
        """Send a call once and give its answer while it arrives; a refusal has arrived already."""
        timeout = httpx2.Timeout(self.options.timeout, read=silence_seconds_max)
        with self._http.stream(
            call.method, call.path, params=call.parameters, headers=call.headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                answer.read()
            yield answer

    def receive(self, reception: Reception[T], silence_seconds_max: float) -> Generator[T, None, None]:
        """Yield what one connection brings, then wait until it is time for the next one."""
        try:
            with self.open(reception.connect(), silence_seconds_max) as answer:
                if answer.is_success:
                    reception.connected(answer)
                    for piece in answer.iter_bytes():
                        yield from reception.take(piece)
                    pause = reception.ended()
                else:
                    pause = reception.refused(answer)
        except FAILURES as error:
            pause = reception.disconnected(error)
        time.sleep(pause)

    def walk(self, walk: Walk[T]) -> Iterator[T]:
        """Yield the items of all pages; one page at a time is in memory."""
        while not walk.done:
            yield from walk.take(self.send(walk.call()))
