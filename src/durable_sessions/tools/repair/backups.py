"""Backups of everything that a repair changes or removes."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import ObjectNotFoundError


class Backups:
    """``<data>/repair-<UTC time>/`` with ``log/``, ``bucket/`` and the catalog's files, all durable."""

    def __init__(self, data: Path, now_ms: int) -> None:
        name = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("repair-%Y%m%dT%H%M%SZ")
        again = 0
        while (folder := data / (name if not again else f"{name}-{again}")).exists():
            again += 1
        folder.mkdir(mode=0o700)
        self.folder = folder

    def keep_file(self, file: Path, under: str) -> None:
        """Copy a file."""
        target = self.folder / under / file.name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(file, target)
        _sync(target)

    async def keep_object(self, bucket: ObjectStore, path: str) -> None:
        """Copy an object, if it exists."""
        try:
            data = await bucket.get(path)
        except ObjectNotFoundError:
            return
        target = self.folder / "bucket" / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(data)
        _sync(target)

    def sync(self) -> None:
        """Sync the directories, so that the names of all backups are durable."""
        for directory, _, _ in os.walk(self.folder):
            _sync(Path(directory))
        _sync(self.folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
