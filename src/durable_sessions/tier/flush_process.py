"""The server's end of its flush process: large flushes are folded and encoded there.

Folding 32 MiB takes the interpreter for a second, in which appends would wait for its lock again and again,
and leaves memory that is not given back. In its own process it does neither. The first large flush starts it,
and it is ended when it has had nothing to do for a while. The server can do without it: what the process
fails at, the server does itself.
"""

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
import structlog

from durable_sessions.limits import Limits
from durable_sessions.threads import Pool
from durable_sessions.tier.flush_contents import FlushContents
from durable_sessions.tier.flush_message import Wanted, answered, receive, request, send

_COMMAND = (sys.executable, "-m", "durable_sessions.tier.flush_worker")
_AT_ONCE_SECONDS = 0.2
"""A flush that follows another one so soon had waited for it: appends come faster than they are flushed."""
_FAILURES = (OSError, EOFError, ValueError, msgspec.DecodeError, TimeoutError)

logger = structlog.get_logger(__name__)


class FlushProcess:
    """Folds the large flushes of all partitions of this process, one at a time, in a child process."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turn = asyncio.Lock()
        self._thread = Pool("flush-process", 1)
        self._process: subprocess.Popen[bytes] | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._ended_at = -math.inf
        self.flushes = 0

    @property
    def pid(self) -> int | None:
        """The process id, None while there is no process."""
        return None if self._process is None else self._process.pid

    async def contents(
        self, catalog: Path, batches: Sequence[bytes], next_stream: int
    ) -> FlushContents | None:
        """Return what a flush writes; None if it is small, or the process fails: then the caller folds it.

        The catalog must not change meanwhile.
        """
        if sum(map(len, batches)) < self._limits.flush_process_bytes_min:
            return None
        async with self._turn:
            self._stay()
            now = asyncio.get_running_loop().time
            wanted = Wanted(str(catalog), next_stream, urgent=now() - self._ended_at < _AT_ONCE_SECONDS)
            try:
                async with asyncio.timeout(self._limits.flush_process_seconds_max):
                    found = await self._thread.run(self._exchange, request(wanted, batches))
            except _FAILURES as error:
                logger.warning("flush_process_failed", reason=str(error) or repr(error))
                await self._end()
                return None
            except BaseException:
                await self._end()
                raise
            self.flushes += 1
            self._ended_at = now()
            rest = self._limits.flush_process_idle_seconds
            self._resting = asyncio.get_running_loop().call_later(rest, self._rest)
            return found

    async def close(self) -> None:
        """End the process."""
        self._stay()
        await self._end()
        self._thread.shutdown(wait=False)

    def _exchange(self, parts: Sequence[bytes]) -> FlushContents:
        process = self._process
        if process is None:
            process = self._process = _start()
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, parts)
        return answered(receive(process.stdout))

    def _stay(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _rest(self) -> None:
        self._kill()
        self._thread.submit(self._bury)

    async def _end(self) -> None:
        """End the process, also one that a thread waits for, which is told so."""
        self._kill()
        await self._thread.run(self._bury)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _bury(self) -> None:
        """Wait for a process that was killed, in the thread that alone reads from it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # again: it may have been started since
        process.wait()
        for file in (process.stdin, process.stdout):
            if file is not None:
                _close(file)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what was not written yet cannot be any more
        file.close()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # else its threads keep several times the memory
        process_group=0,  # Ctrl-C is for the server, which ends it
    )
