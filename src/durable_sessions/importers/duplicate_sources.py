"""Duplicate sources: several files that would become the same session."""

from collections.abc import Collection, Iterable
from pathlib import Path

from durable_sessions import export_header
from durable_sessions.importers.sources import SourceError, Transcript

_CHUNK_BYTES = 1024 * 1024
COPY_REASON = "a copy of a file that is imported"
OTHER_FILE_REASON = "another file of the same session"


class SameSessionError(SourceError):
    """Two different files were given that would become one session."""

    def __init__(self, first: Path, second: Path, session: str) -> None:
        super().__init__(
            f"{first} and {second} differ and would both become the session {session}. "
            "Rename one of them, or import them one at a time to merge them."
        )


def longer(first: Path, second: Path) -> Path | None:
    """Return the longer of two files if it begins with all of the other one, None if they differ."""
    short, long = sorted((first, second), key=_size)
    with short.open("rb") as one, long.open("rb") as other:
        one.seek(_start(short))
        other.seek(_start(long))
        while chunk := one.read(_CHUNK_BYTES):
            if other.read(len(chunk)) != chunk:
                return None
    return long


def _size(path: Path) -> int:
    return path.stat().st_size - _start(path)


def _start(path: Path) -> int:
    """Return where the records begin: after the header of an export, whose title may have changed since."""
    with path.open("rb") as file:
        line = file.readline(export_header.HEADER_BYTES_MAX)
    return 0 if export_header.decode(line) is None else len(line)


def without_copies(
    transcripts: Iterable[Transcript], named: Collection[Path], *, is_strict: bool
) -> tuple[list[Transcript], list[str]]:
    """Return one transcript for each session, and why others were left out.

    Of a file and its continuation, the longer one counts. Files that differ are refused if they were
    ``named``, or always if ``is_strict``; otherwise a tool's duplicates below a folder do not stop an import.
    """
    kept: dict[str, Transcript] = {}
    reasons = []
    for one in transcripts:
        before = kept.setdefault(one.session, one)
        if before is one:
            continue
        first, second = before.parts[0].path, one.parts[0].path
        if first.resolve() == second.resolve():
            kept[one.session] = one  # one file that was named twice
            continue
        chosen = longer(first, second)
        if chosen is None and (is_strict or (first in named and second in named)):
            raise SameSessionError(first, second, one.session)
        kept[one.session] = before if chosen == first else one
        reasons.append(COPY_REASON if chosen else OTHER_FILE_REASON)
    return list(kept.values()), reasons
