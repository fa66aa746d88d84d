"""Puts a dossier into an archive: the events as they are read, then the artifacts, and what proves them."""

from collections.abc import Iterable

from durable_sessions.errors import DossierTooLargeError
from durable_sessions.evidence import statement
from durable_sessions.evidence.archive import ArchiveWriter, OpenFile
from durable_sessions.evidence.statement import (
    DOSSIER,
    DOSSIER_TEXT,
    ENVELOPE,
    EVENTS,
    GRAPH,
    GRAPH_TEXT,
    STATEMENT,
    SUMS,
    Sign,
)
from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.made import MadeDossier
from durable_sessions.sessions.dossier.spool import Spool
from durable_sessions.storage.turns import Turns

_CHUNK_BYTES = 256 * 1024


class DossierArchive:
    """Writes the files of a dossier one after the other, in threads, within a bound."""

    def __init__(self, spool: Spool, turns: Turns, limits: Limits) -> None:
        self._spool = spool
        self._writer = ArchiveWriter(spool.file)
        self._turns = turns
        self._limits = limits
        self._open: OpenFile | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = self._bytes = 0

    async def begin(self, session: str) -> None:
        """Begin with the events of a session."""
        self._open = await self._spool.run(self._writer.begin, f"{EVENTS}{session}.jsonl")

    def add(self, event: bytes) -> bool:
        """Take the next event; say whether it is time to ``flush``."""
        # Outside of texts a line end is a space; inside of them JSON has none.
        self._waiting.append(event.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
        self._waiting_bytes += len(event) + 1
        return self._waiting_bytes >= _CHUNK_BYTES

    async def flush(self) -> None:
        """Write the events that were taken."""
        assert self._open is not None
        self.reserve(self._waiting_bytes)
        self._bytes += self._waiting_bytes
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        await self._spool.run(_write, self._open, waiting)

    async def end(self) -> None:
        """End the events of a session."""
        assert self._open is not None
        await self.flush()
        await self._spool.run(self._open.end)
        self._open = None

    async def add_file(self, name: str, pieces: Iterable[bytes]) -> None:
        """Add a file, whose pieces are made in short turns."""
        self._open = await self._spool.run(self._writer.begin, name)
        turn = self._turns.begin()
        for piece in pieces:
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
            if self._waiting_bytes >= _CHUNK_BYTES:
                await self.flush()
            if turn.over:
                await turn.rest()
        await self.end()

    async def close(self, made: MadeDossier, kid: str, sign: Sign) -> None:
        """Add the dossier itself, the statement about all files, its signature, and the sums."""
        await self.add_file(DOSSIER, made.json())
        await self.add_file(DOSSIER_TEXT, made.document())
        await self.add_file(GRAPH, made.graph_json())
        await self.add_file(GRAPH_TEXT, made.graph_chart())
        stated = statement.statement(self._writer.files, made.result)
        await self.add_file(STATEMENT, (stated,))
        await self.add_file(ENVELOPE, (statement.envelope(stated, kid, sign),))
        await self.add_file(SUMS, (statement.sums(self._writer.files),))
        await self._spool.run(self._writer.close)

    def reserve(self, size: int) -> None:
        """Refuse if so many bytes more are too many."""
        if self._bytes + size > self._limits.dossier_archive_bytes_max:
            most = self._limits.dossier_archive_bytes_max
            raise DossierTooLargeError(what=f"more than {most:,} bytes of events and artifacts")


def _write(file: OpenFile, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        file.write(piece)
