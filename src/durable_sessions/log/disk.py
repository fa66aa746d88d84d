"""The disk seam: the few things the file log asks of a disk, and the real one."""

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from durable_sessions.directories import sync_directory
from durable_sessions.errors import LogLockedError

LOCK_NAME = "lock"


class File(Protocol):
    """One open file. Failures are raised as OSError."""

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset``, or fewer only where the file ends."""
        ...

    def write(self, data: bytes, offset: int) -> int:
        """Write ``data`` at ``offset`` in one call and return how many bytes were taken."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        ...

    def sync(self) -> None:
        """Make everything written to the file, and its size, survive power loss."""
        ...

    def close(self) -> None:
        """Close the file without syncing it."""
        ...


class Disk(Protocol):
    """Opens, lists and removes files. Failures are raised as OSError."""

    def claim(self, directory: Path) -> Callable[[], None]:
        """Make ``directory`` exist durably and claim it; return what releases the claim."""
        ...

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return the name and the size in bytes of every file in ``directory``."""
        ...

    def create(self, path: Path) -> File:
        """Create and open a file that must not exist; durable after ``sync_directory``."""
        ...

    def open(self, path: Path, *, writable: bool = False) -> File:
        """Open a file that exists."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file; durable after ``sync_directory``."""
        ...

    def sync_directory(self, directory: Path) -> None:
        """Make the creations and removals in ``directory`` survive power loss."""
        ...


def write_all(file: File, data: bytes, offset: int) -> None:
    """Write ``data`` in one call; a short write is a failure, never continued."""
    written = file.write(data, offset)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written")


class RealFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset``, or fewer only where the file ends."""
        data = os.pread(self._descriptor, length, offset)
        while data and len(data) < length:
            more = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, data: bytes, offset: int) -> int:
        """Write ``data`` at ``offset`` in one call and return how many bytes were taken."""
        return os.pwrite(self._descriptor, data, offset)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Make everything written to the file, and its size, survive power loss."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file without syncing it."""
        os.close(self._descriptor)


class RealDisk:
    """The file system of the operating system; new files are readable by their owner only."""

    def claim(self, directory: Path) -> Callable[[], None]:
        """Make ``directory`` exist durably and claim it; return what releases the claim."""
        self._make(directory)
        path = directory / LOCK_NAME
        # The lock belongs to the open file, so that it ends with the process, however that ends.
        lock = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")  # noqa: SIM115 (held until released)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
        except BlockingIOError:
            holder = lock.read().strip()
            lock.close()
            raise LogLockedError(path=str(path), pid=holder or "unknown") from None
        except BaseException:
            lock.close()
            raise

        def release() -> None:
            # While it is still ours: afterwards the name in it would be a successor's.
            if not lock.closed:
                with suppress(OSError):
                    os.ftruncate(lock.fileno(), 0)
            lock.close()

        return release

    def _make(self, directory: Path) -> None:
        directory = directory.absolute()
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        # A process may have been killed between creating a directory and syncing its entry. Each entry is
        # synced before the next directory is made, so that only the lowest of those that exist can lack it.
        lowest = missing[-1].parent if missing else directory
        if os.access(lowest.parent, os.R_OK):
            self.sync_directory(lowest.parent)
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            self.sync_directory(path.parent)

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return the name and the size in bytes of every file in ``directory``."""
        with os.scandir(directory) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def create(self, path: Path) -> RealFile:
        """Create and open a file that must not exist; durable after ``sync_directory``."""
        return RealFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def open(self, path: Path, *, writable: bool = False) -> RealFile:
        """Open a file that exists."""
        return RealFile(os.open(path, os.O_RDWR if writable else os.O_RDONLY))

    def unlink(self, path: Path) -> None:
        """Remove a file; durable after ``sync_directory``."""
        path.unlink()

    def sync_directory(self, directory: Path) -> None:
        """Make the creations and removals in ``directory`` survive power loss."""
        sync_directory(directory)


REAL_DISK = RealDisk()
