"""Dossiers, for programs with an event loop."""

import json
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO

from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.dossier import (
    SILENCE_SECONDS_MAX,
    DossierDownload,
    asked,
    format_of,
    replaced,
)
from durable_sessions.client.incarnation import PinnedIncarnation


class AsyncDossier:
    """The dossier of a session; each method asks for it."""

    def __init__(
        self,
        session: str,
        kind: str,
        at: str | int | None,
        transport: AsyncTransport,
        pinned: PinnedIncarnation,
    ) -> None:
        self._of = session, kind
        self._at = at
        self._transport = transport
        self._pinned = pinned

    async def read(self) -> dict[str, Any]:
        """Return it: ``complete``, ``missing``, ``questions``, ``sections``, ``graph`` …"""
        found: dict[str, Any] = json.loads(await self._bytes("json"))
        return found

    async def text(self) -> str:
        """Return it as Markdown."""
        return (await self._bytes("md")).decode()

    async def save(self, path: Path | str) -> Path:
        """Write it to a file: as a zip file with all that proves it, unless the name ends in .json or .md.

        The file takes its place when all of it has come.
        """
        path = Path(path)
        with replaced(path) as file:
            await self.write(file, format_of(path))
        return path

    async def write(self, file: BinaryIO, form: str) -> None:
        """Write it to an open file that can be sought, as ``json``, ``md`` or ``zip``."""
        call = self._pinned.pin(asked(*self._of, form, self._at))
        download = DossierDownload(call, file, self._transport.attempts())
        while not download.complete:
            async with aclosing(self._transport.receive(download, SILENCE_SECONDS_MAX)) as received:
                async for _ in received:
                    pass

    async def _bytes(self, form: str) -> bytes:
        with tempfile.TemporaryFile() as file:
            await self.write(file, form)
            file.seek(0)
            return file.read()
