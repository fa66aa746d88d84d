"""What a worker and the supervisor of workers tell each other, over the worker's standard input.

The supervisor says first what the worker is to do. The worker says when it serves, and when it has answered
its last client; it then still answers other workers, until the supervisor says that all have come so far. The
end of the channel tells a worker that the supervisor is gone, however it died.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from struct import Struct

READY, DRAINED = b"r", b"d"
"""What the worker says."""
FINISH = b"f"
"""What the supervisor says when no worker has clients any more."""
MESSAGES_BYTES_MAX = 64
_LENGTH = Struct("<I")


def framed(start: bytes) -> bytes:
    """Return what a worker is told at its start, as it is sent."""
    return _LENGTH.pack(len(start)) + start


class WorkerChannel:
    """The worker's end."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._finish: asyncio.Event | None = None

    def start(self) -> bytes:
        """Wait for what the supervisor says first; raise EOFError if it is gone."""
        return self._read(*_LENGTH.unpack(self._read(_LENGTH.size)))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = os.read(self._descriptor, size - len(found))
            if not piece:
                raise EOFError("the supervisor is gone")
            found += piece
        return found

    def listen(self, gone: Callable[[], None]) -> None:
        """Listen to the supervisor from now on; call ``gone``, once, when it is gone."""
        loop = asyncio.get_running_loop()
        finish = self._finish = asyncio.Event()

        def readable() -> None:
            try:
                said = os.read(self._descriptor, MESSAGES_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if FINISH in said or not said:
                finish.set()
            if not said:
                loop.remove_reader(self._descriptor)
                gone()

        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, readable)

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        self._tell(READY)

    async def drained(self, seconds_max: float) -> None:
        """Tell that this worker has no clients any more, and wait until none has; not longer than this."""
        assert self._finish is not None, "it listens"
        self._tell(DRAINED)
        try:
            async with asyncio.timeout(seconds_max):
                await self._finish.wait()
        except TimeoutError:
            pass

    def _tell(self, message: bytes) -> None:
        try:
            os.write(self._descriptor, message)
        except OSError:
            pass  # it is gone, which the reader of the channel notices
