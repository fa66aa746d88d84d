"""Where all data of a run lies: one directory on one real disk, the same for all."""

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})


class Place:
    """A directory that hands out fresh ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._numbers = itertools.count()

    def fresh(self, name: str) -> Path:
        """Return a new directory for one server's data."""
        path = self.root / f"{next(self._numbers):03d}-{name}"
        path.mkdir()
        return path

    def log(self, name: str) -> Path:
        """Return a new path for the output of one process."""
        return self.root / f"{next(self._numbers):03d}-{name}.log"


@contextlib.contextmanager
def temporary_place(parent: Path) -> Iterator[Place]:
    """Make a directory for a run and remove it at the end; refuse one that is only memory."""
    kind = file_system(parent)[1]
    if kind in MEMORY_FILE_SYSTEMS:
        raise SystemExit(
            f"bench: {parent} is {kind}, where a sync costs nothing; name one on a disk with --directory"
        )
    with tempfile.TemporaryDirectory(prefix="durable-sessions-bench-", dir=parent) as root:
        os.chmod(root, 0o711)  # a database that runs as another user must get through
        yield Place(Path(root))


def file_system(path: Path) -> tuple[str, str]:
    """Return the device and the kind of the file system that holds a path."""
    found, longest = ("unknown", "unknown"), -1
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, mounted, kind = line.split()[:3]
        if path.resolve().is_relative_to(mounted) and len(mounted) > longest:
            found, longest = (device, kind), len(mounted)
    return found
