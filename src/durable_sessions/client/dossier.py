"""Dossiers: what a family of sessions has to show for itself, read or saved to a file."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import nothing, offset_text, session_path
from durable_sessions.client.incarnation import PinnedIncarnation
from durable_sessions.client.resumable import ResumableTransfer
from durable_sessions.client.retry import Attempts
from durable_sessions.client.transport import Transport

SILENCE_SECONDS_MAX = 300.0
"""How long the server may be silent: it reads the whole family before it answers."""
_FORMATS = {".json": "json", ".md": "md"}


def format_of(path: Path) -> str:
    """Return how a file of this name is written: ``.json``, ``.md``, else as a zip file with all evidence."""
    return _FORMATS.get(path.suffix.lower(), "zip")


def asked(session: str, kind: str, form: str, at: str | int | None) -> ApiCall[None]:
    """Ask for a dossier."""
    parameters = (("kind", kind), ("format", form), *(() if at is None else (("at", offset_text(at)),)))
    return ApiCall("GET", session_path(session, "dossier"), nothing, parameters=parameters)


class DossierDownload(ResumableTransfer[int]):
    """The download of a dossier to a file; after a lost connection it begins again."""

    def __init__(self, call: ApiCall[None], file: BinaryIO, attempts: Attempts) -> None:
        super().__init__(attempts)
        self._call = call
        self._file = file
        self.complete = False

    def connect(self) -> ApiCall[None]:
        """Return the request."""
        return self._call

    def connected(self, answer: httpx2.Response) -> None:
        """Begin the file anew."""
        self._file.seek(0)
        self._file.truncate()

    def take(self, piece: bytes) -> tuple[int]:
        """Write a piece, and return how large it is."""
        return (self._file.write(piece),)

    def ended(self) -> float:
        """Note that all of it has come."""
        self.complete = True
        return 0.0


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path``, which takes its place if all goes well."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:  # of the file that the caller named, not of the temporary one
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class Dossier:
    """The dossier of a session; each method asks for it."""

    def __init__(
        self, session: str, kind: str, at: str | int | None, transport: Transport, pinned: PinnedIncarnation
    ) -> None:
        self._of = session, kind
        self._at = at
        self._transport = transport
        self._pinned = pinned

    def read(self) -> dict[str, Any]:
        """Return it: ``complete``, ``missing``, ``questions``, ``sections``, ``graph`` …"""
        found: dict[str, Any] = json.loads(self._bytes("json"))
        return found

    def text(self) -> str:
        """Return it as Markdown."""
        return self._bytes("md").decode()

    def save(self, path: Path | str) -> Path:
        """Write it to a file: as a zip file with all that proves it, unless the name ends in .json or .md.

        The file takes its place when all of it has come.
        """
        path = Path(path)
        with replaced(path) as file:
            self.write(file, format_of(path))
        return path

    def write(self, file: BinaryIO, form: str) -> None:
        """Write it to an open file that can be sought, as ``json``, ``md`` or ``zip``."""
        call = self._pinned.pin(asked(*self._of, form, self._at))
        download = DossierDownload(call, file, self._transport.attempts())
        while not download.complete:
            for _ in self._transport.receive(download, SILENCE_SECONDS_MAX):
                pass

    def _bytes(self, form: str) -> bytes:
        with tempfile.TemporaryFile() as file:
            self.write(file, form)
            file.seek(0)
            return file.read()
