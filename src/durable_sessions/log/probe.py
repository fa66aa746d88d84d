"""Finding out whether a disk that has failed takes writes again."""

from contextlib import closing, suppress
from pathlib import Path

from durable_sessions.log.disk import Disk, write_all

NAME = "probe"


def probe(disk: Disk, directory: Path, size: int) -> None:
    """Write and sync this many bytes in ``directory`` and remove them again; raises OSError if that fails."""
    path = directory / NAME
    with suppress(FileNotFoundError):
        disk.unlink(path)
    try:
        with closing(disk.create(path)) as file:
            write_all(file, bytes(size), 0)
            file.sync()
    finally:
        with suppress(FileNotFoundError):
            disk.unlink(path)
