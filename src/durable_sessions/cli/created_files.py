"""Files that a start of the server creates, and that it removes again if it was refused."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from durable_sessions.errors import LogLockedError
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.generations import LOG_NAME
from durable_sessions.settings import Settings


class CreatedFiles:
    """What is not there before a start; nothing was acknowledged until it serves, so it can be removed."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data
        self._missing = _missing(settings.data)
        self._missing_bucket = _missing_bucket(settings)
        self.is_everything = self._missing is not None and (
            self._missing_bucket is not None or not settings.bucket
        )
        """Whether there is no data of an earlier start, so that there cannot be keys yet."""

    def remove(self) -> None:
        """Remove what the start has created."""
        if self._missing is not None:
            remove_data(self._data, self._missing)
        if self._missing_bucket is not None:
            _remove_empty(self._missing_bucket)


def _missing(data: Path) -> Path | None:
    """Return the topmost directory that must be created for the data, None if there is data already."""
    absent = [path for path in (data.absolute(), *data.absolute().parents) if not path.exists()]
    return absent[-1] if absent else None


def _missing_bucket(settings: Settings) -> Path | None:
    """Return the topmost directory that must be created for the bucket, None if there is none."""
    if "://" in settings.bucket:
        return None
    return _missing(Path(settings.bucket) if settings.bucket else settings.data / "bucket")


def remove_data(data: Path, highest: Path) -> None:
    """Remove a data directory that a start has created, unless another server uses it by now.

    It does if another process holds the lock of the log. Parent directories are removed only if empty.
    """
    try:
        release = REAL_DISK.claim(data / LOG_NAME)
    except (LogLockedError, OSError):
        return
    try:
        shutil.rmtree(data, ignore_errors=True)
    finally:
        release()
    for parent in data.absolute().parents:
        if not parent.is_relative_to(highest):
            break
        with suppress(OSError):
            parent.rmdir()


def _remove_empty(directory: Path) -> None:
    """Remove directories that contain no file; another server may use the bucket by now."""
    found = list(os.walk(directory, topdown=False))
    for path, _, _ in found if not any(files for _, _, files in found) else ():
        with suppress(OSError):
            os.rmdir(path)
