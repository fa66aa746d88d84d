"""Directories on disk."""

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the creations, renames and removals in ``directory`` survive power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory and those above it that are missing; they survive power loss on return."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)
