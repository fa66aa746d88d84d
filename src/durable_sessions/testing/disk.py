"""A simulated disk, to test what survives power loss and disk faults in anything on ``log.disk``."""

import errno
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from durable_sessions.errors import LogLockedError

SECTOR_BYTES = 512

_Change = tuple[int, bytes | None]
"""Bytes written at an offset; None for a cut to that size."""


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    else:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


@dataclass(slots=True, eq=False)
class _Inode:
    """A file: its content as reads show it, its durable content, and the unsynced changes."""

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)

    def change(self, offset: int, data: bytes | None) -> None:
        _apply(self.cached, offset, data)
        self.pending.append((offset, data))

    def store(self, changes: list[_Change]) -> None:
        for offset, data in changes:
            _apply(self.durable, offset, data)
        self.pending.clear()


@dataclass(slots=True)
class _Fault:
    operation: str
    skip: int
    error: int | None  # None: a short write
    written: int = 0


class FaultyDisk:
    """A disk in memory that loses unsynced changes in a crash, and fails on command.

    - :meth:`crash` is a power loss. Of an unsynced write nothing, everything, its beginning or
      some of its sectors survive; an unsynced creation or removal has happened or has not.
      :meth:`kill` ends only the process: what was written stays readable, and unsynced.
    - After a failed sync of a file, reads still show its data, the next sync succeeds without
      storing it, and a crash loses it: what Linux does when it cannot write a page back.
    - The same seed and the same calls lose the same bytes.

    ``operations`` lists the changing calls so far: create, write, truncate, sync, unlink,
    sync_directory. Directories always exist. Safe to use from several threads.
    """

    def __init__(self, seed: int = 0) -> None:
        self.operations: list[str] = []
        self.life = 0
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._cached: dict[Path, _Inode] = {}
        self._durable: dict[Path, _Inode] = {}
        self._pending: list[tuple[Path, _Inode | None]] = []  # None: removed
        self._claimed: set[Path] = set()
        self._faults: list[_Fault] = []
        self._power_until: int | None = None

    # For tests ------------------------------------------------------------------------------

    def fail(self, operation: str, error: int = errno.EIO, *, skip: int = 0) -> None:
        """Make one ``operation`` (also ``read``) raise OSError, after ``skip`` more that work."""
        self._faults.append(_Fault(operation, skip, error))

    def write_short(self, length: int, *, skip: int = 0) -> None:
        """Make one write take only ``length`` bytes, after ``skip`` more that work."""
        self._faults.append(_Fault("write", skip, None, length))

    def cut_power(self, after: int) -> None:
        """Let everything fail once ``after`` more changing operations are done, until :meth:`crash`."""
        self._power_until = len(self.operations) + after

    def crash(self) -> None:
        """Simulate a power loss and a restart; open files and claims are gone."""
        with self._lock:
            for path, inode in self._pending:
                if self._random.random() < 0.5:
                    self._link(self._durable, path, inode)
            self._pending.clear()
            for inode in self._durable.values():
                inode.store(self._survivors(inode))
                inode.cached[:] = inode.durable
            self._cached = dict(self._durable)
            self._claimed.clear()
            self._faults.clear()
            self._power_until = None
            self.life += 1

    def kill(self) -> None:
        """Simulate the death of the process, not of the machine: written data stays as it is."""
        with self._lock:
            self._claimed.clear()
            self._faults.clear()
            self._power_until = None
            self.life += 1

    def contents(self) -> dict[Path, bytes]:
        """Return all files as reads show them."""
        with self._lock:
            return {path: bytes(inode.cached) for path, inode in sorted(self._cached.items())}

    def replace(self, path: Path, content: bytes | None) -> None:
        """Make ``content`` the durable content of the file, or remove it; for damage and decay."""
        with self._lock:
            inode = None if content is None else _Inode(bytearray(content), bytearray(content))
            self._link(self._cached, path, inode)
            self._link(self._durable, path, inode)

    # The interface of a disk ----------------------------------------------------------------

    def claim(self, directory: Path) -> Callable[[], None]:
        """Claim ``directory``; return what releases the claim."""
        with self._lock:
            if directory in self._claimed:
                raise LogLockedError(path=str(directory), pid=os.getpid())
            self._claimed.add(directory)
            life = self.life
        return lambda: self._claimed.discard(directory) if life == self.life else None

    def sizes(self, directory: Path) -> dict[str, int]:
        """Return the name and the size in bytes of every file in ``directory``."""
        with self._lock:
            files = [path for path in self._cached if path.parent == directory]
            return {path.name: len(self._cached[path].cached) for path in files}

    def create(self, path: Path) -> "FaultyFile":
        """Create and open a file that must not exist; durable after ``sync_directory``."""
        with self._lock:
            self.begin("create")
            if path in self._cached:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            inode = _Inode()
            self._cached[path] = inode
            self._pending.append((path, inode))
            return FaultyFile(self, inode, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> "FaultyFile":
        """Open a file that exists."""
        with self._lock:
            return FaultyFile(self, self._find(path), writable=writable)

    def unlink(self, path: Path) -> None:
        """Remove a file; durable after ``sync_directory``."""
        with self._lock:
            self.begin("unlink")
            self._find(path)
            del self._cached[path]
            self._pending.append((path, None))

    def sync_directory(self, directory: Path) -> None:
        """Make the creations and removals in ``directory`` survive a crash."""
        with self._lock:
            self.begin("sync_directory")
            for path, inode in self._pending:
                if path.parent == directory:
                    self._link(self._durable, path, inode)
            self._pending = [entry for entry in self._pending if entry[0].parent != directory]

    # Internals ------------------------------------------------------------------------------

    def begin(self, operation: str) -> int | None:
        """Count an operation and raise its fault; return the length if it is to be a short write."""
        if self._power_until is not None and len(self.operations) >= self._power_until:
            raise OSError(errno.EIO, "the power is off")
        if operation != "read":
            self.operations.append(operation)
        for fault in self._faults:
            if fault.operation != operation:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            self._faults.remove(fault)
            if fault.error is not None:
                raise OSError(fault.error, os.strerror(fault.error))
            return fault.written
        return None

    def change(self, inode: _Inode, operation: str, offset: int, data: bytes | None) -> int:
        """Apply a write or a cut to what reads show; return how many bytes were taken."""
        with self._lock:
            length = self.begin(operation)
            taken = data if data is None else data[:length]
            inode.change(offset, taken)
            return len(taken or b"")

    def sync(self, inode: _Inode) -> None:
        """Store the changes of a file, or drop them if this sync is to fail."""
        with self._lock:
            try:
                self.begin("sync")
            except OSError:
                inode.store(self._survivors(inode))
                raise
            inode.store(inode.pending)

    def peek(self, inode: _Inode, length: int, offset: int) -> bytes:
        """Return what reads show."""
        with self._lock:
            self.begin("read")
            return bytes(inode.cached[offset : offset + length])

    def _find(self, path: Path) -> _Inode:
        if path not in self._cached:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._cached[path]

    @staticmethod
    def _link(directory: dict[Path, _Inode], path: Path, inode: _Inode | None) -> None:
        if inode is None:
            directory.pop(path, None)
        else:
            directory[path] = inode

    def _survivors(self, inode: _Inode) -> list[_Change]:
        return [part for change in inode.pending for part in self._parts(*change)]

    def _parts(self, offset: int, data: bytes | None) -> list[_Change]:
        fate = self._random.choice(("lost", "whole", "prefix", "sectors"))
        if fate == "lost":
            return []
        if fate == "whole" or data is None:
            return [(offset, data)]
        if fate == "prefix":
            return [(offset, data[: self._random.randrange(len(data) + 1)])]
        # Sectors begin at multiples of their size in the file, wherever the write began.
        edges = [0, *range(SECTOR_BYTES - offset % SECTOR_BYTES, len(data), SECTOR_BYTES), len(data)]
        parts = [(offset + low, data[low:high]) for low, high in pairwise(edges)]
        return [part for part in parts if self._random.random() < 0.5]


class FaultyFile:
    """An open file of a :class:`FaultyDisk`; of no more use once the disk has crashed."""

    def __init__(self, disk: FaultyDisk, inode: _Inode, *, writable: bool) -> None:
        self._disk = disk
        self._inode = inode
        self._writable = writable
        self._life = disk.life

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset``, or fewer only where the file ends."""
        self._check(writing=False)
        return self._disk.peek(self._inode, length, offset)

    def write(self, data: bytes, offset: int) -> int:
        """Write ``data`` at ``offset`` and return how many bytes were taken."""
        self._check(writing=True)
        return self._disk.change(self._inode, "write", offset, data)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        self._check(writing=True)
        self._disk.change(self._inode, "truncate", size, None)

    def sync(self) -> None:
        """Make everything written to the file survive a crash."""
        self._check(writing=True)
        self._disk.sync(self._inode)

    def close(self) -> None:
        """Close the file; nothing is synced."""
        self._life = -1

    def _check(self, *, writing: bool) -> None:
        if self._life != self._disk.life or (writing and not self._writable):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
