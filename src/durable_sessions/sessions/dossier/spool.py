"""A large answer on its way to a client: in memory while it is small, else in a temporary file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, TypeVar, cast

from durable_sessions.errors import ViewUnavailableError
from durable_sessions.storage.turns import Turns
from durable_sessions.threads import FILES

_CHUNK_BYTES = 256 * 1024
T = TypeVar("T")


class Spool:
    """Keeps bytes that are written once, in threads, and then read from the beginning.

    The file has no name, so that nothing is left of it, however the process ends. ``low_space`` says why the
    disk must not be filled any further, None if it may.
    """

    def __init__(
        self, directory: Path, memory_bytes_max: int, turns: Turns, low_space: Callable[[], str | None]
    ) -> None:
        spooled = SpooledTemporaryFile(memory_bytes_max, dir=str(directory))  # noqa: SIM115 - closed by ``close``
        self.file = cast("BinaryIO", spooled)
        self._turns = turns
        self._low_space = low_space
        self.size = 0

    async def run(self, write: Callable[..., T], *arguments: object) -> T:
        """Run something in a thread that writes to the file; refuse if the disk does not take it."""
        return await FILES.run(self._guarded, write, arguments)

    def _guarded(self, write: Callable[..., T], arguments: tuple[object, ...]) -> T:
        # The log is on the same disk, and it would stop if this filled it.
        if (reason := self._low_space()) is not None:
            raise ViewUnavailableError(problem=f"The server cannot write the dossier: {reason}.")
        try:
            return write(*arguments)
        except OSError as error:
            problem = f"The server cannot write the dossier: {error.strerror}."
            raise ViewUnavailableError(problem=problem) from error

    async def write(self, pieces: Iterable[bytes]) -> None:
        """Add pieces, which are made in short turns."""
        turn = self._turns.begin()
        waiting: list[bytes] = []
        size = 0
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= _CHUNK_BYTES:
                await self.run(self.file.writelines, waiting)
                waiting, size = [], 0
            if turn.over:
                await turn.rest()
        await self.run(self.file.writelines, waiting)

    async def rewind(self) -> None:
        """End writing; from now on it is read."""
        self.size = self.file.tell()
        await self.run(self.file.seek, 0)  # writes what is still buffered

    async def read(self) -> bytes:
        """Return the next bytes, none at the end."""
        return await FILES.run(self.file.read, _CHUNK_BYTES)

    def close(self) -> None:
        """Free the memory, or the file; in a thread, since that takes long for a large one."""
        FILES.submit(self.file.close)
