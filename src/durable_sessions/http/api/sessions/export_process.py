"""A process that makes an export: it is given the events as they are read, and what it writes is sent.

A page of 50,000 events takes many seconds of processor time, which appends would have to wait for.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

from durable_sessions.exporters.__main__ import END
from durable_sessions.threads import Pool

_PIECE_BYTES = 64 * 1024
_COMMAND = (sys.executable, "-m", "durable_sessions.exporters")


class ExportProcess:
    """Sends what the process writes; all is freed at the end, even if sending never began.

    ``frames`` is its input, without the end. If it cannot be read, or the process fails, the answer is
    aborted: a part is not taken for the whole.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        frames: AsyncIterator[bytes],
        threads: Pool,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._threads = threads
        self._held = AsyncExitStack()
        self._feeding = asyncio.create_task(self._feed(frames))

    @classmethod
    async def start(cls, words: list[str], frames: AsyncIterator[bytes], threads: Pool) -> "ExportProcess":
        """Start a process, in a thread: the event loop would wait for the fork."""
        starting = asyncio.ensure_future(threads.run(_started, words))
        try:
            return cls(await asyncio.shield(starting), frames, threads)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_unwanted)
            raise

    def hold(self, held: AsyncExitStack) -> None:
        """Close this at the end, too."""
        self._held = held

    async def _feed(self, frames: AsyncIterator[bytes]) -> None:
        try:
            async for data in frames:
                await self._threads.run(self._write, data)
            await self._threads.run(self._write, END)
        except Exception:
            # Events cannot be read, or the process has failed. Either way it fails now, which whoever waits
            # for the rest is told by an answer without an end.
            self._process.kill()

    def _write(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def __aiter__(self) -> "ExportProcess":
        return self

    async def __anext__(self) -> bytes:
        piece = await self._threads.run(os.read, self._stdout.fileno(), _PIECE_BYTES)
        if piece:
            return piece
        is_whole = await self._threads.run(self._process.wait) == 0
        await self.aclose()
        if is_whole:
            raise StopAsyncIteration
        raise asyncio.CancelledError

    async def aclose(self) -> None:
        """End the process, and let the next one begin."""
        self._feeding.cancel()
        self._process.kill()
        await self._held.aclose()
        await self._threads.run(self._free)

    def _free(self) -> None:
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError, ValueError):
                pipe.close()


def _end_unwanted(starting: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """End a process that nobody waits for any more."""
    if not starting.cancelled() and starting.exception() is None:
        with starting.result() as process:
            process.kill()


def _started(words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603
        [*_COMMAND, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C is for the server, which ends it
    )
