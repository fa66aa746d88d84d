"""The files of a local sandbox, which lead nowhere else: not by a path, and not by a symbolic link."""

import os
import stat
from pathlib import Path

from durable_sessions.sandbox.errors import SandboxLostError, SandboxPathError
from durable_sessions.sandbox.sandbox import require_file_size

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalFiles:
    """Reads, writes and lists below one directory.

    A path is resolved first, links included, and must still lie below the directory. Then it is opened part
    by part without following links, so that a command which swaps a part for a link in between gains nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file."""
        with open(self._open_file(path, os.O_RDONLY), "rb") as file:
            require_file_size(path, os.fstat(file.fileno()).st_size)
            return file.read()

    def write(self, path: str, content: bytes) -> None:
        """Write a regular file, and make the directories above it."""
        with open(self._open_file(path, os.O_WRONLY | os.O_CREAT, create=True), "wb") as file:
            file.truncate()
            file.write(content)

    def _open_file(self, path: str, flags: int, *, create: bool = False) -> int:
        # Without O_NONBLOCK, opening a named pipe would wait for its other end.
        number = self._open(path, flags | os.O_NONBLOCK, create=create)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise SandboxPathError(f"{path} is no file.")
        return number

    def list(self, path: str) -> list[str]:
        """Return the names in a directory."""
        number = self._open(path, _DIRECTORY)
        try:
            with os.scandir(number) as entries:
                return [f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name for one in entries]
        finally:
            os.close(number)

    def _open(self, path: str, flags: int, *, create: bool = False) -> int:
        try:
            resolved = (self._folder / path).resolve()
            parts = resolved.relative_to(self._folder).parts
        except (ValueError, RuntimeError, OSError):
            raise SandboxPathError(f"{path} leads out of the sandbox.") from None
        try:
            current = os.open(self._folder, _DIRECTORY)
        except OSError as error:
            raise SandboxLostError(f"The directory of the sandbox is gone: {error.strerror}.") from None
        try:
            for part in parts[:-1]:
                if create:
                    _make_directory(part, current)
                current = _replaced(current, os.open(part, _DIRECTORY, dir_fd=current))
            name = parts[-1] if parts else "."
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=current)
        except OSError as error:
            raise SandboxPathError(f"{path}: {error.strerror}.") from None
        finally:
            os.close(current)


def _make_directory(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        pass


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new
