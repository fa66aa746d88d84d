"""File permissions of the data directory: directories 0700 and files 0600, whatever the umask."""

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def tighten(directory: Path) -> None:
    """Remove the access of other users to a directory and everything in it.

    A directory that is private already is skipped, since nothing in it can be reached: so a large one costs
    nothing at the next start. A directory is changed after its contents, so that an interrupted run is
    repeated. Links are not followed and not changed.
    """
    for entry in os.scandir(directory):
        if entry.is_symlink():
            continue
        with suppress(FileNotFoundError):  # a temporary file that is gone by now
            mode = entry.stat(follow_symlinks=False).st_mode
            if not mode & _OTHERS:
                continue
            if entry.is_dir(follow_symlinks=False):
                tighten(Path(entry.path))
            else:
                Path(entry.path).chmod(stat.S_IMODE(mode) & ~_OTHERS)
    mode = directory.stat().st_mode
    if mode & _OTHERS:
        directory.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def make_file(path: Path) -> None:
    """Create an empty file that only the owner can read, if there is none."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
