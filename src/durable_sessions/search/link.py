"""The server's end of the connection to the search process."""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from durable_sessions.errors import SearchUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.search.messages import (
    LENGTH,
    REPLY_BYTES_MAX,
    Add,
    Ask,
    Cancel,
    Erase,
    Failed,
    Indexed,
    Ping,
    Pong,
    Ready,
    Remove,
    Reply,
    SearchAnswer,
    Stop,
    Taken,
    frame,
)
from durable_sessions.search.tails import IndexedTails

UNDER_WAY_BYTES_MAX = 4 * 1024 * 1024
"""Events that were sent and not acknowledged yet; more are not read before there is room."""
ASKS_BYTES_MAX = 1024 * 1024
"""Searches in the send buffer that the worker has not read yet; beyond it, searches are refused."""
DEATH_SECONDS_MAX = 5.0
"""How long to wait for a killed process; one that hangs in the kernel is abandoned."""
LINES_MAX = 200
LINE_BYTES_MAX = 8 * 1024
"""How much of a process's standard error is logged: the number of lines, and the longest line."""
_SILENT_BEATS = 3
_ENDED = "the search process has ended"

_REPLIES = msgspec.msgpack.Decoder(Reply)
logger = structlog.get_logger(__name__)


class WorkerLink:
    """The connection to a running worker: events are sent without an answer, searches get one.

    The worker is pinged periodically. One that does not answer, or spends too long on one step, is killed;
    then the link is lost, and ``ended_for`` says why.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: Limits,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[SearchAnswer]] = {}
        self._under_way = 0
        self._room: asyncio.Future[None] | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._heard_at = self._loop.time()
        self._tasks = [
            asyncio.create_task(self._run(), name="search replies"),
            asyncio.create_task(self._beat(), name="search heartbeat"),
            asyncio.create_task(_log_errors(process), name="search errors"),
        ]
        self.lost = False
        self.ended_for: str | None = None
        self.tails = IndexedTails()
        self.searches = 0

    @classmethod
    async def open(cls, directory: Path, lineage: str, limits: Limits) -> "WorkerLink":
        """Start a worker on a directory and wait until it serves."""
        ours, its = socket.socketpair()
        with its:
            starting = asyncio.ensure_future(asyncio.to_thread(_start, directory, lineage, its.fileno()))
            try:
                process = await asyncio.shield(starting)
            except asyncio.CancelledError:
                # The thread cannot be cancelled and will start the process: wait for it, and end the process.
                ours.close()
                with suppress(OSError):
                    await asyncio.to_thread(_end, await starting)
                raise
            except OSError as error:
                ours.close()
                raise SearchUnavailableError(reason=f"its process cannot be started ({error})") from error
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        link = cls(process, reader, writer, limits)
        try:
            await link._ready
        except BaseException:
            await link.abort()
            raise
        return link

    async def send(self, message: Add | Remove | Erase) -> None:
        """Send a message, waiting until there is room for it."""
        size = message.size
        # With nothing under way a message is always sent, or one that exceeds the limit would wait for ever.
        while self._under_way and self._under_way + size > UNDER_WAY_BYTES_MAX and not self.lost:
            self._room = self._loop.create_future()
            await self._room
        self._require()
        self._under_way += size
        self._writer.write(frame(message))

    async def ask(self, request: Ask, seconds_max: float) -> SearchAnswer:
        """Return the result of a search; its number is assigned here.

        The worker gets the deadline of the search, and a cancellation if the caller stops waiting earlier.
        """
        self._require()
        # Events are limited to UNDER_WAY_BYTES_MAX, so whatever exceeds that in the buffer are searches.
        if self._writer.transport.get_write_buffer_size() > UNDER_WAY_BYTES_MAX + ASKS_BYTES_MAX:
            raise SearchUnavailableError(reason="too many searches wait for the search process")
        number = next(self._numbers)
        answer: asyncio.Future[SearchAnswer] = self._loop.create_future()
        self._asked[number] = answer
        deadline = time.monotonic() + seconds_max
        self._writer.write(frame(msgspec.structs.replace(request, number=number, deadline=deadline)))
        try:
            async with asyncio.timeout(seconds_max):
                return await answer
        except TimeoutError:
            reason = f"the search process has not answered for {seconds_max:g} seconds"
            raise SearchUnavailableError(reason=reason) from None
        finally:
            del self._asked[number]
            if not self.lost and (not answer.done() or answer.cancelled()):
                self._writer.write(frame(Cancel(number)))

    async def close(self) -> None:
        """Let the worker commit and end; wait only briefly, since its successor is sent what is missing."""
        if not self.lost and self.silence is None:
            self._writer.write(frame(Stop()))
            seconds = self._limits.search_stop_seconds_max
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, seconds)
        await self.abort()

    async def abort(self) -> None:
        """End the worker now."""
        self.drop()
        try:
            await asyncio.to_thread(self._process.wait, DEATH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            logger.error("search_process_does_not_end", pid=self.pid)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def drop(self, reason: str = _ENDED) -> None:
        """End the worker as if it had died."""
        self._lose(reason)
        if self._process.poll() is None:
            self._process.kill()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def silence(self) -> str | None:
        """What is wrong with a worker that leaves several pings unanswered, None if nothing is."""
        seconds = self._loop.time() - self._heard_at
        if seconds < _SILENT_BEATS * self._limits.search_heartbeat_seconds:
            return None
        return f"the search process has not answered for {seconds:.0f} seconds"

    def _require(self) -> None:
        if self.lost:
            raise SearchUnavailableError(reason=_ENDED)

    # Receiving --------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                reply = await self._receive()
                self._heard_at = self._loop.time()
                self._take(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lose(_ENDED)
        except (msgspec.DecodeError, ValueError) as error:
            self._end(f"the search process sent a message that cannot be decoded ({error})")

    async def _receive(self) -> Reply:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > REPLY_BYTES_MAX:
            raise ValueError(f"{length} bytes at a time")
        reply: Reply = _REPLIES.decode(await self._reader.readexactly(length))
        return reply

    def _take(self, reply: Reply) -> None:
        match reply:
            case Taken():
                self._under_way -= reply.size
                self._wake()
            case Pong():
                self.searches = reply.searches
                if reply.busy_seconds > self._limits.search_step_seconds_max:
                    self._end(f"the search process was at one thing for {reply.busy_seconds:.0f} seconds")
            case Indexed():
                self.tails.add(reply)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
            case Failed(number=0):
                self._lose(reply.reason)
            case SearchAnswer() | Failed():
                self._answer(reply)

    def _answer(self, reply: SearchAnswer | Failed) -> None:
        asked = self._asked.get(reply.number)
        if asked is None or asked.done():
            return  # the caller timed out or was cancelled
        if isinstance(reply, SearchAnswer):
            asked.set_result(reply)
        else:
            asked.set_exception(SearchUnavailableError(reason=reply.reason))

    async def _beat(self) -> None:
        """Ping the worker, and end one that does not answer."""
        pause = self._limits.search_heartbeat_seconds
        while not self.lost:
            self._writer.write(frame(Ping()))
            asked_at = self._loop.time()
            await asyncio.sleep(pause)
            if self._loop.time() - asked_at > 2 * pause:
                # This process stood still itself, so the silence says nothing about the worker.
                self._heard_at = self._loop.time()
            silent = self._loop.time() - self._heard_at
            if silent > self._limits.search_silence_seconds_max:
                self._end(f"the search process has not answered for {silent:.0f} seconds")

    def _end(self, reason: str) -> None:
        logger.error("search_process_killed", pid=self.pid, reason=reason)
        self.ended_for = reason
        self.drop(reason)

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _lose(self, reason: str) -> None:
        self.lost = True
        self._wake()
        if not self._ready.done():
            self._ready.set_exception(SearchUnavailableError(reason=reason))
            self._ready.exception()  # mark it as retrieved: possibly nobody awaits it
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(SearchUnavailableError(reason=reason))


def _start(directory: Path, lineage: str, descriptor: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "durable_sessions.search.worker", str(directory), lineage]
    return subprocess.Popen(  # noqa: S603
        [*command, str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # else its many threads keep several times the memory
        pass_fds=[descriptor],
        process_group=0,  # Ctrl-C is for the server, which tells it to stop
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker whose start was cancelled."""
    process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


async def _log_errors(process: subprocess.Popen[bytes]) -> None:
    """Copy a worker's standard error to the structured log of the server."""
    assert process.stderr is not None
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, process.stderr)
    try:
        logged, rest = 0, b""
        while chunk := await reader.read(LINE_BYTES_MAX):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines[: LINES_MAX - logged]:
                logger.warning("search_process_said", pid=process.pid, line=line.decode(errors="replace"))
                logged += 1
    finally:
        transport.close()
