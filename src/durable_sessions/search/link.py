"""The server's end of the connection to the process that searches."""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from durable_sessions.errors import SearchUnavailableError
from durable_sessions.search.messages import (
    FRAME_BYTES_MAX,
    LENGTH,
    Add,
    Answer,
    Ask,
    Failed,
    Ready,
    Remove,
    Reply,
    Stop,
    Taken,
    frame,
)

UNDER_WAY_BYTES_MAX = 4 * 1024 * 1024
"""Events that were sent and not taken yet; more wait where they are stored."""
ASKS_BYTES_MAX = 1024 * 1024
"""Searches that the worker has not begun to read yet; more are refused."""
STOP_SECONDS_MAX = 30.0

logger = structlog.get_logger(__name__)

_REPLIES = msgspec.msgpack.Decoder(Reply)


class Link:
    """A running worker: events go there and are not answered, searches are."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._under_way = 0
        self._room: asyncio.Future[None] | None = None
        self._receiver: asyncio.Task[None] | None = None
        self.lost = False
        self.tails: dict[str, dict[int, int]] = {}

    @classmethod
    async def open(cls, directory: Path, lineage: str) -> "Link":
        """Start a worker on a directory and wait until it serves."""
        ours, its = socket.socketpair()
        with its:
            try:
                process = await asyncio.to_thread(_start, directory, lineage, its.fileno())
            except OSError as error:
                ours.close()
                raise SearchUnavailableError(reason=f"its process cannot be started ({error})") from error
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        link = cls(process, reader, writer)
        try:
            ready = await link._receive()
            if isinstance(ready, Failed):
                raise SearchUnavailableError(reason=ready.reason)
            assert isinstance(ready, Ready)
        except BaseException as error:
            await link.abort()
            if isinstance(error, asyncio.IncompleteReadError | ConnectionError):
                raise SearchUnavailableError(reason="the search process has ended") from error
            raise
        link.tails = ready.tails
        link._receiver = asyncio.create_task(link._run(), name="search replies")
        return link

    async def send(self, message: Add | Remove) -> None:
        """Send a message when there is room for it."""
        size = message.size
        while self._under_way and self._under_way + size > UNDER_WAY_BYTES_MAX and not self.lost:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        self._require()
        self._under_way += size
        self._writer.write(frame(message))

    async def ask(self, request: Ask, seconds_max: float) -> Answer:
        """Return what a search finds; its number is given here."""
        self._require()
        if self._writer.transport.get_write_buffer_size() > UNDER_WAY_BYTES_MAX + ASKS_BYTES_MAX:
            raise SearchUnavailableError(reason="too many searches wait for the search process")
        number = next(self._numbers)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._writer.write(frame(msgspec.structs.replace(request, number=number)))
        try:
            async with asyncio.timeout(seconds_max):
                return await answer
        except TimeoutError:
            reason = f"the search process has not answered for {seconds_max:g} seconds"
            raise SearchUnavailableError(reason=reason) from None
        finally:
            self._asked.pop(number, None)

    async def close(self) -> None:
        """Let the worker keep what it has, and end."""
        if not self.lost:
            self._writer.write(frame(Stop()))
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.to_thread(self._process.wait, STOP_SECONDS_MAX)
        except (TimeoutError, subprocess.TimeoutExpired):
            pass
        await self.abort()

    async def abort(self) -> None:
        """End the worker now."""
        self._lose()
        if self._process.poll() is None:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        if self._receiver is not None:
            self._receiver.cancel()
            await asyncio.gather(self._receiver, return_exceptions=True)
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def drop(self) -> None:
        """End the worker as if it had died."""
        self._lose()
        self._process.kill()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def _require(self) -> None:
        if self.lost:
            raise SearchUnavailableError(reason="the search process has ended")

    async def _run(self) -> None:
        try:
            while True:
                self._take(await self._receive())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception:  # whatever it says cannot be understood; another worker is started
            logger.exception("search_replies_failed")
        finally:
            self._lose()

    async def _receive(self) -> Reply:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        assert length <= FRAME_BYTES_MAX
        reply: Reply = _REPLIES.decode(await self._reader.readexactly(length))
        return reply

    def _take(self, reply: Reply) -> None:
        if isinstance(reply, Taken):
            self._under_way -= reply.size
            self._wake()
        elif isinstance(reply, Answer | Failed):
            asked = self._asked.get(reply.number)
            if asked is None or asked.done():
                return  # nobody waits for it any more
            if isinstance(reply, Answer):
                asked.set_result(reply)
            else:
                asked.set_exception(SearchUnavailableError(reason=reply.reason))

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _lose(self) -> None:
        self.lost = True
        self._wake()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(SearchUnavailableError(reason="the search process has ended"))


def _start(directory: Path, lineage: str, descriptor: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "durable_sessions.search.worker", str(directory), lineage]
    return subprocess.Popen(  # noqa: S603
        [*command, str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # else its many threads keep several times the memory
        pass_fds=[descriptor],
    )
