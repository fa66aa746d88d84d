"""The disk of one run of the simulated process: every operation is a fault point, and some fail."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from durable_sessions.log.disk import File
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.simulation.life import Life

_ERRORS = {
    "claim": (errno.EIO,),
    "sizes": (errno.EIO,),
    "open": (errno.EIO, errno.EMFILE),
    "read": (errno.EIO,),
    "create": (errno.EIO, errno.ENOSPC),
    "write": (errno.EIO, errno.ENOSPC),
    "truncate": (errno.EIO,),
    "sync": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "sync_directory": (errno.EIO, errno.ENOSPC),
}
# FaultyDisk has no orders for these; they fail here, before they reach it.
_UNCOUNTED = ("claim", "sizes", "open")


class DiskFaults:
    """How often operations fail; ``rate`` is a probability, or 0 when the disk is sound."""

    def __init__(self, seed: str, rate: float) -> None:
        self.rate = rate
        self._random = random.Random(seed)

    def order(self, disk: FaultyDisk, operation: str, length: int) -> None:
        """Make the next ``operation`` fail, or write less than ``length``, with the given probability."""
        if not self.rate or self._random.random() >= self.rate:
            return
        if operation == "write" and self._random.random() < 0.3:
            disk.write_short(self._random.randrange(max(length, 1)))
            return
        error = self._random.choice(_ERRORS[operation])
        if operation in _UNCOUNTED:
            raise OSError(error, os.strerror(error))
        disk.fail(operation, error)


class SimulatedDisk:
    """A :class:`FaultyDisk` for one life; once that is over nothing more reaches it.

    ``removing`` is told of each file before it goes.
    """

    def __init__(
        self,
        disk: FaultyDisk,
        faults: DiskFaults,
        life: Life,
        note: Callable[[str], None],
        removing: Callable[[Path], None],
    ) -> None:
        self._removing = removing
        self._disk = disk
        self._faults = faults
        self._life = life
        self._note = note

    def claim(self, directory: Path) -> Callable[[], None]:
        """Claim ``directory``; return what releases the claim."""
        with self.operation("claim", directory):
            return self._disk.claim(directory)

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return the name and the size in bytes of every file in ``directory``."""
        with self.operation("sizes", directory):
            return self._disk.sizes(directory)

    def create(self, path: Path) -> "SimulatedFile":
        """Create and open a file that must not exist; durable after ``sync_directory``."""
        with self.operation("create", path):
            return SimulatedFile(self, path, self._disk.create(path))

    def open(self, path: Path, *, writable: bool = False) -> "SimulatedFile":
        """Open a file that exists."""
        with self.operation("open", path):
            return SimulatedFile(self, path, self._disk.open(path, writable=writable))

    def unlink(self, path: Path) -> None:
        """Remove a file; durable after ``sync_directory``."""
        with self.operation("unlink", path):
            # Told while the file is still there, so that a check can look into what is about to go.
            self._removing(path)
            self._disk.unlink(path)

    def sync_directory(self, directory: Path) -> None:
        """Make the creations and removals in ``directory`` survive power loss."""
        with self.operation("sync_directory", directory):
            self._disk.sync_directory(directory)

    @contextmanager
    def operation(self, name: str, path: Path, length: int = 0) -> Iterator[None]:
        """Pass the fault points around an operation; it may fail as the seed says."""
        # Before and after: a process that dies behind a sync has made bytes durable that it never
        # acknowledged.
        self._life.reach(f"before log.{name}")
        self._faults.order(self._disk, name, length)
        try:
            yield
        except OSError as error:
            self._note(f"log.{name} {path.name} fails: {error.errno}")
            raise
        self._note(f"log.{name} {path.name} {length}")
        self._life.reach(f"after log.{name}")


class SimulatedFile:
    """An open file of a :class:`SimulatedDisk`."""

    def __init__(self, disk: SimulatedDisk, path: Path, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset``, or fewer only where the file ends."""
        with self._disk.operation("read", self._path, length):
            return self._file.read(length, offset)

    def write(self, data: bytes, offset: int) -> int:
        """Write ``data`` at ``offset`` and return how many bytes were taken."""
        with self._disk.operation("write", self._path, len(data)):
            return self._file.write(data, offset)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        with self._disk.operation("truncate", self._path, size):
            self._file.truncate(size)

    def sync(self) -> None:
        """Make everything written to the file survive power loss."""
        with self._disk.operation("sync", self._path):
            self._file.sync()

    def close(self) -> None:
        """Close the file; nothing is synced."""
        self._file.close()
