"""Walks folders without leaving them: links that lead out are skipped and reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_passed_over: ContextVar[set[Path] | None] = ContextVar("passed_over", default=None)


@contextmanager
def noting() -> Iterator[set[Path]]:
    """Collect the links that are skipped because they lead out of the folder that was named."""
    noted: set[Path] = set()
    token = _passed_over.set(noted)
    try:
        yield noted
    finally:
        _passed_over.reset(token)


def below(folder: Path, pattern: str = "*", root: Path | None = None, *, deep: bool = True) -> list[Path]:
    """Return the paths below a folder that match a pattern, sorted, if they are inside ``root``.

    ``root`` is the folder itself or one above. Without ``deep``, only the folder itself is searched.
    """
    real = (folder if root is None else root).resolve()
    stays: dict[Path, bool] = {}
    found = []
    for path in sorted(folder.rglob(pattern) if deep else folder.glob(pattern)):
        parent = path.parent
        if parent not in stays:
            stays[parent] = _stays(parent, real)
        if stays[parent] and (not path.is_symlink() or _stays(path, real)):
            found.append(path)
        elif stays[parent]:
            _note(path)
        else:
            _note(parent)
    return found


def lies_in(path: Path, root: Path) -> bool:
    """Say whether a file or folder is inside a folder, with all links resolved."""
    if _stays(path, root.resolve()):
        return True
    _note(path)
    return False


def _stays(path: Path, real: Path) -> bool:
    try:
        return path.resolve().is_relative_to(real)
    except (OSError, RuntimeError):
        return False  # a cycle of links


def _note(path: Path) -> None:
    noted = _passed_over.get()
    if noted is not None:
        noted.add(path)
