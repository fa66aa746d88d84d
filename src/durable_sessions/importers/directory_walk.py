"""Walks folders without leaving them: links that lead out are skipped and reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

# Not an argument: every importer walks folders, at several depths, and none of them has to know of the
# report.
_skipped_links: ContextVar[set[Path] | None] = ContextVar("skipped_links", default=None)


@contextmanager
def collect_skipped_links() -> Iterator[set[Path]]:
    """Collect the links that are skipped because they lead out of the folder that was named."""
    skipped: set[Path] = set()
    token = _skipped_links.set(skipped)
    try:
        yield skipped
    finally:
        _skipped_links.reset(token)


def below(folder: Path, pattern: str = "*", root: Path | None = None, *, deep: bool = True) -> list[Path]:
    """Return the paths below a folder that match a pattern, sorted, if they are inside ``root``.

    ``root`` is the folder itself or one above. Without ``deep``, only the folder itself is searched.
    """
    # A link must not bring files into an import that nobody named, such as keys in the home of the user.
    real = (folder if root is None else root).resolve()
    is_inside: dict[Path, bool] = {}  # of folders: resolving each file's path would take much longer
    found = []
    for path in sorted(folder.rglob(pattern) if deep else folder.glob(pattern)):
        parent = path.parent
        if parent not in is_inside:
            is_inside[parent] = _is_inside(parent, real)
        if is_inside[parent] and (not path.is_symlink() or _is_inside(path, real)):
            found.append(path)
        else:
            _skip(path if is_inside[parent] else parent)
    return found


def lies_in(path: Path, root: Path) -> bool:
    """Say whether a file or folder is inside a folder, with all links resolved."""
    if _is_inside(path, root.resolve()):
        return True
    _skip(path)
    return False


def _is_inside(path: Path, real: Path) -> bool:
    try:
        return path.resolve().is_relative_to(real)
    except (OSError, RuntimeError):
        return False  # a cycle of links


def _skip(path: Path) -> None:
    skipped = _skipped_links.get()
    if skipped is not None:
        skipped.add(path)
