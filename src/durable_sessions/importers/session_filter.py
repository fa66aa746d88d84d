"""Filters the sessions that were found by time and project."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import PurePath

from durable_sessions.importers.sources import Transcript


def parse_since(text: str) -> float:
    """Return a date such as 2026-11-01, or a full time, in seconds; ValueError if it is neither."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def choose(
    transcripts: Iterable[Transcript], *, since: float | None = None, project: str | None = None
) -> Iterator[tuple[Transcript, str | None]]:
    """Yield every transcript with the reason why it is left out, None if it is selected."""
    for transcript in transcripts:
        if since is not None and _changed_at(transcript) < since:
            yield transcript, "older than --since"
        elif project is not None and not _is_of(transcript, project):
            yield transcript, "another project"
        else:
            yield transcript, None


def _changed_at(transcript: Transcript) -> float:
    times = []
    for part in transcript.parts:
        try:
            times.append(part.path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _is_of(transcript: Transcript, project: str) -> bool:
    """Say whether a session's working folder has this name, is this folder, or is below it."""
    if transcript.directory is None:
        return False
    directory = PurePath(transcript.directory.replace("\\", "/"))
    wanted = PurePath(project.replace("\\", "/"))
    if len(wanted.parts) == 1 and not wanted.is_absolute():
        return project in directory.parts
    return directory == wanted or wanted in directory.parents
