"""What is on disk is the server's own affair: directories 0700 and files 0600, whatever the umask says."""

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def tighten(directory: Path) -> None:
    """Take a directory and all that is in it away from other users.

    What lies in a directory that is private already is out of their reach, and is not looked at: a large one
    costs nothing at the next start. A directory comes after what is in it, so that one that was not finished
    is gone through again. Links are left alone, and so is what they lead to.
    """
    for entry in os.scandir(directory):
        if entry.is_symlink():
            continue
        with suppress(FileNotFoundError):  # it was temporary
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
    """Make an empty file, if there is none, that nobody else can read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
