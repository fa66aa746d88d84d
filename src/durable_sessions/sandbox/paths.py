"""Paths in a sandbox: relative to its working directory, which they cannot leave."""

from pathlib import PurePosixPath

from durable_sessions.sandbox.bounds import PATH_BYTES_MAX
from durable_sessions.sandbox.errors import SandboxPathError


def inner_path(path: str) -> str:
    """Return a path without its empty and dot parts; raise SandboxPathError if it leads elsewhere."""
    if "\0" in path or len(path.encode()) > PATH_BYTES_MAX:
        raise SandboxPathError(f"A path in a sandbox has at most {PATH_BYTES_MAX:,} bytes, and no NUL.")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise SandboxPathError(
            f"{path!r} leaves the sandbox; give a path relative to its working directory, without '..'."
        )
    return str(pure)


def inner_file(path: str) -> str:
    """Return the path of a file, which is not the working directory itself."""
    inner = inner_path(path)
    if inner == ".":
        raise SandboxPathError(f"{path!r} is the working directory; give the path of a file in it.")
    return inner
