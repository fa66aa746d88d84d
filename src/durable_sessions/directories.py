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
